#!/bin/sh
# The first process of the machine. The kernel's command line says what it does: stage=format|run,
# and with which bug: plant=none|no-disk-sync.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# Checksums first: this modprobe knows nothing of what a file system asks for as it is mounted.
for module in crc32c_generic virtio_pci virtio_blk nfit nd_pmem ext4; do
    modprobe "$module" || echo "FAILED modprobe $module"
done
word() { sed "s/.*$1=\([a-z-]*\).*/\1/" /proc/cmdline; }
mkdir -p /nvm /disk
if [ "$(word stage)" = format ]; then
    # The emulated memory comes up raw. A file on it can be mapped once it has been given pages.
    bus=/sys/bus/nd
    echo namespace0.0 > $bus/drivers/nd_pmem/unbind
    echo 2097152 > $bus/devices/pfn0.0/align
    echo 00000000-1111-4222-8333-444444444444 > $bus/devices/pfn0.0/uuid
    echo ram > $bus/devices/pfn0.0/mode
    echo namespace0.0 > $bus/devices/pfn0.0/namespace
    echo pfn0.0 > $bus/drivers/nd_pmem/bind
    mkfs.ext4 -q -b 4096 -F /dev/pmem0 && mkfs.ext4 -q -b 4096 -F /dev/vda && echo FORMATTED
else
    mount -t ext4 -o dax /dev/pmem0 /nvm || echo 'FAILED mount of the memory'
    mount -t ext4 /dev/vda /disk || echo 'FAILED mount of the disk'
    inside "$(word stage)" "$(word plant)" || echo "FAILED inside: $?"
fi
umount /nvm /disk 2>/dev/null
poweroff -f
