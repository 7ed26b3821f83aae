// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
)

// TestMemoryIsSharedByFile exports memory to a second device, as to another process. The memory
// stays when the first device releases it.
func TestMemoryIsSharedByFile(t *testing.T) {
	const size, base = 2 * gpubackend.Granularity, 0x420000000000
	one := newDevice(t, Options{})
	other := newDevice(t, Options{MemoryLimit: 3 * gpubackend.Granularity})
	m, r := one.CreateMemory(size, 0, 0)
	must(t, "create", r)
	fd, r := one.ExportMemory(m)
	must(t, "export", r)
	used := other.Used(0)
	same, r := other.ImportMemory(fd, size, 0)
	must(t, "import", r)
	unix.Close(fd)
	if now := other.Used(0); now != used+size {
		t.Errorf("%d bytes count, want %d", now-used, size)
	}
	content := func(d *Device, m gpubackend.Memory, addr uint64) []byte {
		must(t, "reserve", d.Reserve(addr, size))
		must(t, "map", d.MapMemory(addr, size, m))
		must(t, "protect", d.Protect(addr, size, 0, gpubackend.AccessReadWrite))
		return cmem.At(addr, size)
	}
	a, b := content(one, m, base), content(other, same, base+size)
	a[5], b[size-1] = 7, 9
	if b[5] != 7 || a[size-1] != 9 {
		t.Error("it is other memory")
	}
	must(t, "unmap", one.UnmapMemory(base, size))
	must(t, "release", one.ReleaseMemory(m))
	if b[5] != 7 {
		t.Error("memory went with its maker")
	}
	must(t, "unmap", other.UnmapMemory(base+size, size))
	must(t, "release", other.ReleaseMemory(same))
	want(t, "release twice", other.ReleaseMemory(same), gpubackend.InvalidValue)
	if now := other.Used(0); now != used {
		t.Errorf("%d bytes still count", now-used)
	}
	must(t, "unreserve", one.Unreserve(base, size))
	must(t, "unreserve", other.Unreserve(base+size, size))
}

func TestImportOfWrongFiles(t *testing.T) {
	d := newDevice(t, Options{MemoryLimit: 4 * gpubackend.Granularity})
	used := d.Used(0)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	_, r := d.ImportMemory(null, gpubackend.Granularity, 0)
	want(t, "no memory", r, gpubackend.InvalidValue)
	_, r = d.ImportMemory(null, gpubackend.Granularity, 99)
	want(t, "no such device", r, gpubackend.InvalidDevice)
	const large = 5 * gpubackend.Granularity
	maker := newDevice(t, Options{})
	m, r := maker.CreateMemory(large, 0, 0)
	must(t, "create", r)
	fd, r := maker.ExportMemory(m)
	must(t, "export", r)
	_, r = d.ImportMemory(fd, large, 0)
	unix.Close(fd)
	want(t, "beyond the limit", r, gpubackend.OutOfMemory)
	must(t, "release", maker.ReleaseMemory(m))
	if now := d.Used(0); now != used {
		t.Errorf("%d bytes count", now-used)
	}
}
