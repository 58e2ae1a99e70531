#!/bin/sh
# Boots systemd as PID 1 of namespaces of its own, in the network and under the name of the cell that it is started in,
# on a layer over this machine's files. `boot.sh PLACE CELL PYTHON CGROUP`: PLACE is an empty directory, CELL the cell's
# directory, PYTHON an interpreter's prefix, CGROUP a name of ours. LOWER is another root directory instead of /, without
# our program.
set -eu
place=$1 cell=$2 python=$3 packages=$4 cgroup=$5 lower=$6

if [ "${7:-}" != booting ]; then
    for tree in /sys/fs/cgroup/unified /sys/fs/cgroup; do
        [ -e "$tree/cgroup.procs" ] && break
    done
    mkdir "$tree/$cgroup"
    echo $$ > "$tree/$cgroup/cgroup.procs"
    echo "$tree/$cgroup" > "$place/cgroup"
    exec unshare --pid --fork --kill-child --mount --ipc --cgroup --propagation private "$0" "$@" booting
fi

read -r pid _ < /proc/self/stat  # as the cell numbers it
mount -t tmpfs -o mode=755 layer "$place/layer"
mkdir "$place/layer/upper" "$place/layer/work" "$place/layer/root"
root=$place/layer/root
mount -t overlay -o "lowerdir=$lower,upperdir=$place/layer/upper,workdir=$place/layer/work" overlay "$root"
cp /etc/hosts /etc/hostname "$root/etc/"
echo 0123456789abcdef0123456789abcdef > "$root/etc/machine-id"
rm -rf "$root"/etc/systemd/system/*.wants
mkdir -p "$root$cell" "$root/run"
mount --rbind "$cell" "$root$cell"
if [ "$lower" = / ]; then
    mkdir -p "$root/opt/python" "$root/opt/sge-autoscaler"
    mount --bind "$python" "$root/opt/python"
    mount --bind "$place/program" "$root/opt/sge-autoscaler"
    mount --bind "$packages" "$root/opt/sge-autoscaler/packages"
fi
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sys "$root/sys" 2> /dev/null || mount --rbind /sys "$root/sys"
while umount "$root/sys/fs/cgroup" 2> /dev/null; do :; done
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 run "$root/run"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/pts" "$root/dev/shm" "$root/mnt/old"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
echo "$pid" > "$place/pid.new"
mv "$place/pid.new" "$place/pid"
cd "$root"
pivot_root . mnt/old
umount -l /mnt/old
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd \
    --system --unit=multi-user.target --log-target=console --log-level=info --show-status=0
