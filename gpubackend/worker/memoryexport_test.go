// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/exports"
	"github.com/paracuda/paracuda/gpubackend/worker/memory"
)

// Where workers of this process have their device memory.
const oneBase, otherBase = 0x2c0000000000, 0x2c8000000000

// exporter is a worker on the software GPU, and the device process's end of its connection.
func exporter(t *testing.T, base uint64) (*rig, *handover.Conn) {
	t.Helper()
	r := onSoftAt(t, base)
	r.withQueue(t) // random secrets may look like maps, which are looked up there
	near := r.dial(t)
	r.use(r.Worker.driver)
	return r, near
}

// offerOf is what a worker has offered last.
func offerOf(t *testing.T, c *handover.Conn) (*handover.Message, []int) {
	t.Helper()
	m, fds, err := c.Receive()
	if err != nil || m.Kind != handover.KindOffer || m.Object == nil {
		t.Fatalf("%+v, %v", m, err)
	}
	t.Cleanup(func() { closeFiles(fds) })
	return m, fds
}

func closeFiles(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// hand gives a worker an object to import, as the device process does.
func hand(t *testing.T, r *rig, o handover.Object, fd int) (refused string) {
	t.Helper()
	if o.GPU == 0 {
		o.GPU = r.hello.GPUs()[0]
	}
	m, fds := &handover.Message{Kind: handover.KindImport, Object: &o}, []int(nil)
	if fd >= 0 {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		m.Files.Object, fds = true, []int{own}
	}
	return r.exports.Accept(m, fds).Error
}

const piece = gpubackend.Granularity

func TestMemoryIsExportedAndImported(t *testing.T) {
	one, conn := exporter(t, oneBase)
	other, back := exporter(t, otherBase)
	m := one.want(t, 0, gpubackend.OpMemCreate, 2*piece, 0, 0)
	one.want(t, gpubackend.InvalidValue, gpubackend.OpMemExportToShareableHandle, m+1)
	n := one.want(t, 0, gpubackend.OpMemExportToShareableHandle, m)
	message, fds := offerOf(t, conn)
	o := *message.Object
	if uint64(o.Number) != n || o.Bytes != 2*piece || o.Kind != handover.ObjectMemory ||
		len(fds) != 1 {
		t.Fatalf("number %d, offer %+v, %d files", n, o, len(fds))
	}
	if again := one.want(t, 0, gpubackend.OpMemExportToShareableHandle, m); again != n {
		t.Errorf("the same memory has numbers %d and %d", n, again)
	}
	offerOf(t, conn)

	o.ID, o.Import = 40, 3
	hand(t, other, o, fds[0])
	other.want(t, gpubackend.InvalidValue, gpubackend.OpMemImportFromShareableHandle, 4)
	other.want(t, gpubackend.InvalidValue, gpubackend.OpMemImportFromShareableHandle, 3|1<<32)
	h := other.want(t, 0, gpubackend.OpMemImportFromShareableHandle, 3)
	if s := other.slot(); s.Word[1] != 2*piece || s.Word[2] != 0 {
		t.Errorf("%d bytes on device %d", s.Word[1], s.Word[2])
	}
	other.want(t, gpubackend.InvalidValue, gpubackend.OpMemImportFromShareableHandle, 3)

	// Once more: it is the same memory, which counts once.
	free := other.want(t, 0, gpubackend.OpMemGetInfo)
	o.Import = 5
	hand(t, other, o, fds[0])
	again := other.want(t, 0, gpubackend.OpMemImportFromShareableHandle, 5)
	if _, imported := other.memory.Shared(); again == h || imported != 1 {
		t.Errorf("handles %#x and %#x are not of the same memory", h, again)
	}
	if now := other.want(t, 0, gpubackend.OpMemGetInfo); now != free {
		t.Errorf("%d bytes are free, %d before", now, free)
	}
	other.want(t, 0, gpubackend.OpMemExportToShareableHandle, again) // by the importer
	if m, _ := offerOf(t, back); m.Object.Bytes != 2*piece {
		t.Errorf("offer %+v", m.Object)
	}
	other.want(t, 0, gpubackend.OpMemRelease, h)
	other.want(t, 0, gpubackend.OpMemRelease, again)
	if now := other.want(t, 0, gpubackend.OpMemGetInfo); now != free+2*piece {
		t.Errorf("%d bytes are free, %d before", now, free)
	}
	if exported, imported := other.memory.Shared(); exported != 0 || imported != 0 {
		t.Errorf("left: %d exported, %d imported", exported, imported)
	}
}

// TestOwnMemoryComesBack imports what the same process has exported, while it has the memory and
// afterwards.
func TestOwnMemoryComesBack(t *testing.T) {
	r, conn := exporter(t, oneBase)
	m := r.want(t, 0, gpubackend.OpMemCreate, piece, 0, 0)
	r.want(t, 0, gpubackend.OpMemExportToShareableHandle, m)
	message, fds := offerOf(t, conn)
	o := *message.Object
	o.ID, o.Own = 1, true
	for o.Import = 1; o.Import < 3; o.Import++ {
		hand(t, r, o, fds[0])
		free := r.want(t, 0, gpubackend.OpMemGetInfo)
		h := r.want(t, 0, gpubackend.OpMemImportFromShareableHandle, uint64(o.Import))
		want := free
		if o.Import == 2 {
			want -= piece
		}
		if now := r.want(t, 0, gpubackend.OpMemGetInfo); now != want {
			t.Errorf("import %d: %d bytes are free, want %d", o.Import, now, want)
		}
		if o.Import == 1 {
			r.want(t, 0, gpubackend.OpMemRelease, m)
		}
		r.want(t, 0, gpubackend.OpMemRelease, h)
	}
}

// TestImportsOfNonsense hands over what a worker that was taken over may have offered.
func TestImportsOfNonsense(t *testing.T) {
	r, _ := exporter(t, oneBase)
	files := map[string]func() (int, error){
		"none": func() (int, error) { return -1, nil },
		"a pipe": func() (int, error) {
			p := []int{0, 0}
			err := unix.Pipe2(p, unix.O_CLOEXEC)
			unix.Close(p[1])
			return p[0], err
		},
		"unsealed": func() (int, error) { return memfd(piece, 0) },
		"short": func() (int, error) {
			return memfd(piece/2, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		},
		"that may shrink": func() (int, error) {
			return memfd(piece, unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		},
		"read-only": func() (int, error) {
			return memfd(piece,
				unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL|unix.F_SEAL_WRITE)
		},
	}
	number := uint32(0)
	for name, file := range files {
		fd, err := file()
		if err != nil {
			t.Fatal(err)
		}
		number++
		hand(t, r, handover.Object{Kind: handover.ObjectMemory, Bytes: piece, ID: 7,
			Import: number}, fd)
		if result := r.call(t, gpubackend.OpMemImportFromShareableHandle,
			uint64(number)); result != gpubackend.InvalidValue {
			t.Errorf("a file that is %s: %d", name, result)
		}
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	good, err := memfd(piece, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(good)
	for i, c := range []struct {
		object handover.Object
		want   gpubackend.Result
	}{
		{handover.Object{Kind: handover.ObjectMemory, Bytes: piece + 1}, gpubackend.InvalidValue},
		{handover.Object{Kind: handover.ObjectMemory, Bytes: 0}, gpubackend.InvalidValue},
		{handover.Object{Kind: handover.ObjectMemory, Bytes: 2 * piece}, gpubackend.InvalidValue},
		{handover.Object{Kind: handover.ObjectMemory, Bytes: piece, GPU: 9},
			gpubackend.InvalidDevice},
		{handover.Object{Kind: handover.ObjectPool, Bytes: piece}, gpubackend.InvalidValue},
		{handover.Object{Kind: handover.ObjectMemory, Bytes: piece}, gpubackend.Success},
	} {
		c.object.Import = 100 + uint32(i)
		hand(t, r, c.object, good)
		if result := r.call(t, gpubackend.OpMemImportFromShareableHandle,
			uint64(c.object.Import)); result != c.want {
			t.Errorf("%+v: %d, want %d", c.object, result, c.want)
		}
	}
	if n := r.exports.Waiting(); n != 0 {
		t.Errorf("%d imports are left", n)
	}
}

func memfd(size int64, seals int) (int, error) {
	fd, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, err
	}
	if err = unix.Ftruncate(fd, size); err == nil && seals != 0 {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	return fd, err
}

func TestImportsAreBounded(t *testing.T) {
	r, conn := exporter(t, oneBase)
	m := r.want(t, 0, gpubackend.OpMemCreate, piece, 0, 0)
	r.want(t, 0, gpubackend.OpMemExportToShareableHandle, m)
	message, fds := offerOf(t, conn)
	o := *message.Object
	for o.Import = 1; o.Import <= exports.MaxWaiting; o.Import++ {
		if why := hand(t, r, o, fds[0]); why != "" {
			t.Fatalf("import %d: %s", o.Import, why)
		}
	}
	if hand(t, r, o, fds[0]) == "" {
		t.Error("one too many is taken")
	}
	r.want(t, 0, gpubackend.OpMemImportFromShareableHandle, 1)
	if why := hand(t, r, o, fds[0]); why != "" {
		t.Errorf("there is room again: %s", why)
	}
	for r.objects.Count(object.Memory) < memory.MaxHandles {
		r.objects.Add(object.Memory, 1, 0)
	}
	r.want(t, gpubackend.OutOfMemory, gpubackend.OpMemImportFromShareableHandle, 2)
}
