#!/bin/sh
# interpreter.sh WORK TOOLS: builds WORK/src/* (Debian's sources, unpacked) into WORK/out, a Python for glibc 2.17 and
# newer. All libraries but glibc are in it. The same bytes come out wherever WORK lies.
set -eu
work=$1 tools=$2
prefix=/opt/sge-autoscaler
deps=$work/deps
out=$work/out
zig=$tools/ziglang/zig
jobs=-j$(nproc)

mkdir -p "$work/bin" "$work/tmp" "$deps/lib" "$deps/include"
for tool in cc ar ranlib; do
    case $tool in cc) words='cc -target x86_64-linux-gnu.2.17' ;; *) words=$tool ;; esac
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$zig" "$words" >"$work/bin/$tool"
    chmod 755 "$work/bin/$tool"
done
export PATH="$work/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export HOME="$work/tmp" TMPDIR="$work/tmp" LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH=1577836800
export ZIG_GLOBAL_CACHE_DIR="$work/cache" ZIG_LOCAL_CACHE_DIR="$work/cache"
export CC=cc AR=ar RANLIB=ranlib
export CFLAGS="-O2 -fPIC -g0 -fno-sanitize=all -Wno-date-time -ffile-prefix-map=$work=/build" LDFLAGS='-Wl,--build-id=none -s'
unset CPPFLAGS CXXFLAGS LIBS PYTHONPATH PYTHONHOME MAKEFLAGS MAKELEVEL

enter() { cd "$work/src/$1"; }

enter zlib
CHOST='' ./configure --static --prefix="$deps"
make $jobs libz.a
make install

enter bzip2
make $jobs CC=cc AR=ar RANLIB=ranlib CFLAGS="$CFLAGS -D_FILE_OFFSET_BITS=64" libbz2.a
cp libbz2.a "$deps/lib/"
cp bzlib.h "$deps/include/"

enter xz-utils
./configure --prefix="$deps" --disable-shared --enable-static --disable-xz --disable-xzdec --disable-lzmadec \
    --disable-lzmainfo --disable-scripts --disable-doc --disable-nls
make $jobs
make install

enter libffi
./configure --host=x86_64-linux-gnu --build=x86_64-linux-gnu --prefix="$deps" --disable-shared --enable-static \
    --disable-docs --disable-multi-os-directory --disable-exec-static-tramp
make $jobs
make install

enter sqlite3
./configure --disable-shared --disable-tcl --disable-readline
make sqlite3.c sqlite3.h
cc $CFLAGS -DSQLITE_ENABLE_FTS5 -DSQLITE_THREADSAFE=1 -DHAVE_USLEEP=1 -c sqlite3.c -o sqlite3.o
ar rcs "$deps/lib/libsqlite3.a" sqlite3.o
cp sqlite3.h "$deps/include/"

enter openssl
./Configure linux-x86_64 --prefix=/ --libdir=lib --openssldir=/etc/ssl no-tests no-engine no-legacy shared \
    CC=cc AR=ar RANLIB=ranlib CFLAGS="$CFLAGS" LDFLAGS="$LDFLAGS"
make $jobs build_libs
make DESTDIR="$deps" install_dev

enter python3.11
# Only what was built here is found, and no header of this machine.
sed -i -e 's/^        self\.add_multiarch_paths()$/        pass/' \
    -e 's/^        system_lib_dirs = .*/        system_lib_dirs = []/' \
    -e 's/^        system_include_dirs = .*/        system_include_dirs = []/' setup.py
# One of Debian's corrections includes a header that is for Python's own modules.
sed -i '1i #define Py_BUILD_CORE_MODULE 1' Modules/pyexpat.c
# Debian keeps its packages apart from others; here there are only ours. Those in a home never get in.
sed -i -e 's/dist-packages/site-packages/' -e 's/^ENABLE_USER_SITE = None/ENABLE_USER_SITE = False/' Lib/site.py
cat >Modules/Setup.local <<'END'
*disabled*
_crypt nis ossaudiodev _tkinter _curses _curses_panel readline _dbm _gdbm _uuid
_testbuffer _testcapi _testclinic _testimportmultiple _testinternalcapi _testmultiphase _xxtestfuzz _ctypes_test
xxlimited xxlimited_35
END
CPPFLAGS="-I$deps/include" LDFLAGS="$LDFLAGS -L$deps/lib" PKG_CONFIG_LIBDIR="$deps/lib/pkgconfig" \
    ac_cv_working_tzset=yes ./configure --prefix="$prefix" --without-ensurepip --disable-test-modules \
    --with-openssl="$deps"
make $jobs
make DESTDIR="$work/stage" install

mkdir -p "$out/bin" "$out/lib"
cp "$work/stage$prefix/bin/python3.11" "$out/bin/"
ln -s python3.11 "$out/bin/python3"
cp -r "$work/stage$prefix/lib/python3.11" "$out/lib/"
cp "$deps/lib/libssl.so.3" "$deps/lib/libcrypto.so.3" "$out/lib/"
cd "$out/lib/python3.11"
rm -rf config-3.11* idlelib lib2to3 tkinter turtledemo turtle.py ensurepip pydoc_data test site-packages
find . -name __pycache__ -type d -prune -exec rm -rf {} +
find . -name test -o -name tests | xargs rm -rf
mkdir site-packages
for library in lib-dynload/_ssl*.so lib-dynload/_hashlib*.so; do
    "$tools/bin/patchelf" --set-rpath '$ORIGIN/../..' "$library"
done
"$tools/bin/patchelf" --set-rpath '$ORIGIN' "$out/lib/libssl.so.3"
# How it was built is of no use elsewhere, and would tell where.
sed -i "s#$work#/build#g" _sysconfigdata*.py
cd /
for module in bz2 ctypes decimal hashlib lzma math socket sqlite3 ssl xml.parsers.expat zlib; do
    "$out/bin/python3.11" -I -c "import $module"
done
