// SPDX-License-Identifier: Apache-2.0

package precopied

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

const base = 1 << 40

// device is memory in pieces, by their addresses.
type device struct {
	pieces map[uint64][]byte
	during func() // is called in the middle of a copy: a kernel that writes
	fails  gpubackend.Result
	copies bool // it has been copied, and EndCopies hasn't come yet
	works  bool // for long
	wrong  bool // all sums are 7
	asked  int  // for sums
}

func (d *device) PresentPieces() (list []gpubackend.Piece) {
	for at, b := range d.pieces {
		list = append(list, gpubackend.Piece{Address: at, Bytes: uint64(len(b))})
	}
	slices.SortFunc(list, func(a, b gpubackend.Piece) int {
		return cmp.Compare(a.Address, b.Address)
	})
	return list
}

// at is the memory of a part of a piece.
func (d *device) at(p gpubackend.Piece) []byte {
	for at, b := range d.pieces {
		if p.Address >= at && p.Address+p.Bytes <= at+uint64(len(b)) {
			return b[p.Address-at:][:p.Bytes]
		}
	}
	return nil
}

func (d *device) SumPieces(key uint64, list []gpubackend.Piece, sums []uint64) gpubackend.Result {
	d.copies = true
	d.asked++
	if d.works {
		return gpubackend.NotReady
	}
	for _, p := range list {
		b := d.at(p)
		if b == nil {
			return gpubackend.InvalidValue
		}
		n := len(b) / sectorsum.Bytes
		sectorsum.Each(key, b, sums[:n])
		for i := range sums[:n] {
			if d.wrong {
				sums[i] = 7
			}
		}
		sums = sums[n:]
	}
	return d.fails
}

func (d *device) SavePieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	d.copies = true
	for _, p := range list {
		b := d.at(p)
		if b == nil {
			return gpubackend.InvalidValue
		}
		half := len(b) / 2
		copy(image, b[:half])
		if d.during != nil {
			d.during()
		}
		copy(image[half:], b[half:])
		image = image[len(b):]
	}
	return d.fails
}

func (d *device) EndCopies() { d.copies = false }

// rig is a Copy, and what its buffer's owner has taken from it.
type rig struct {
	*Copy
	t      *testing.T
	device *device
	file   int
	busy   error
	has    map[uint64][]byte // sectors, by address
	filed  []byte            // what the file has
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, device: &device{pieces: map[uint64][]byte{}}, has: map[uint64][]byte{}}
	r.Copy = New(Config{Driver: r.device, Key: rand.Uint64,
		Busy: func() error { return r.busy }})
	var err error
	if r.file, err = unix.MemfdCreate("buffer", unix.MFD_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.End()
		_ = unix.Close(r.file)
		if r.device.copies {
			t.Error("what copies pass through is never given back")
		}
	})
	if err := unix.Ftruncate(r.file, BufferBytes); err != nil {
		t.Fatal(err)
	}
	for i, sectors := range []int{8, 40, 3} {
		r.piece(base+uint64(i)<<30, sectors)
	}
	if err := r.Begin(r.file, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// piece allocates so many sectors, with something in them.
func (r *rig) piece(at uint64, sectors int) {
	b := make([]byte, sectors*sectorsum.Bytes)
	for i := 0; i < len(b); i += 64 {
		b[i] = byte(rand.Uint32())
	}
	r.device.pieces[at] = b
}

// write changes something in a sector.
func (r *rig) write(at uint64) {
	r.device.at(piece(at &^ (sectorsum.Bytes - 1)))[at%sectorsum.Bytes]++
}

// step takes what a Step copies.
func (r *rig) step() (sectors []uint64, over bool) {
	r.t.Helper()
	sectors, over, err := r.Step()
	if err != nil {
		r.t.Fatal(err)
	}
	b := make([]byte, BufferBytes)
	if _, err := unix.Pread(r.file, b, 0); err != nil {
		r.t.Fatal(err)
	}
	for i, at := range sectors {
		r.has[at] = bytes.Clone(b[i*sectorsum.Bytes:][:sectorsum.Bytes])
	}
	return sectors, over
}

// pass takes a pass, and says how many sectors it has copied.
func (r *rig) pass() (copied int) {
	r.t.Helper()
	for {
		sectors, over := r.step()
		if copied += len(sectors); over {
			return copied
		}
	}
}

// mustEnd ends it: what was copied, and what has changed since, must be all of the memory.
func (r *rig) mustEnd(changed uint64) {
	r.t.Helper()
	r.early()
	list, err := r.Changed(r.device.PresentPieces())
	if err != nil {
		r.t.Fatal(err)
	}
	if n := gpubackend.PieceBytes(list); n != changed*sectorsum.Bytes {
		r.t.Errorf("%d bytes have changed, want %d sectors", n, changed)
	}
	for _, p := range list {
		for at := p.Address; at < p.Address+p.Bytes; at += sectorsum.Bytes {
			r.has[at] = bytes.Clone(r.device.at(piece(at)))
		}
	}
	for at, b := range r.device.pieces {
		for i := 0; i < len(b); i += sectorsum.Bytes {
			if !bytes.Equal(r.has[at+uint64(i)], b[i:][:sectorsum.Bytes]) {
				r.t.Fatalf("sector %d of what is at %#x is another one there",
					i/sectorsum.Bytes, at)
			}
		}
	}
}

// early makes the memory from the copies, in the order of their addresses, the file, and what they
// lack: so much is said.
func (r *rig) early() (lack uint64) {
	r.t.Helper()
	pieces := r.device.PresentPieces()
	runs, rest, err := r.Early(pieces)
	if err != nil {
		r.t.Fatal(err)
	}
	var copies, own, got, want []byte
	for _, at := range slices.Sorted(maps.Keys(r.has)) {
		copies = append(copies, r.has[at]...)
	}
	for _, p := range rest {
		for at := p.Address; at < p.Address+p.Bytes; at += sectorsum.Bytes {
			own = append(own, r.device.at(piece(at))...)
		}
	}
	for _, p := range pieces {
		want = append(want, r.device.at(p)...)
	}
	if runs == nil {
		got = own
	}
	for _, x := range runs {
		from := r.filed
		if x.From >= savedvm.InArea {
			from, x.From = copies, x.From-savedvm.InArea
		}
		got = append(got, from[x.From:][:x.Same]...)
		got, own = append(got, own[:x.Own]...), own[x.Own:]
	}
	if !bytes.Equal(got, want) {
		r.t.Fatalf("%d bytes are others than %d", len(got), len(want))
	}
	return gpubackend.PieceBytes(rest)
}

// TestPasses: all is copied once, then what has changed, and at the end what has changed since.
func TestPasses(t *testing.T) {
	r := newRig(t)
	if n := r.pass(); n != 51 {
		t.Errorf("%d sectors in the first pass", n)
	}
	if n := r.pass(); n != 0 {
		t.Errorf("%d sectors of which none has changed", n)
	}
	r.write(base + 5)
	r.write(base + 1<<30 + 39*sectorsum.Bytes + 11)
	if n := r.pass(); n != 2 {
		t.Errorf("%d sectors, and two have changed", n)
	}
	r.write(base + 2<<30)
	r.write(base + 2<<30 + sectorsum.Bytes)
	r.mustEnd(2)
}

// TestWrittenDuringACopy: a sector that is written to while it is copied is copied again.
func TestWrittenDuringACopy(t *testing.T) {
	r := newRig(t)
	r.device.during = func() { // the first sector's beginning, which has been copied
		r.device.pieces[base][3]++
		r.device.during = nil
	}
	r.pass()
	r.mustEnd(1)
}

// TestWorkThatGoesOn: a pass copies all again if nothing can be compared, and asks only once.
func TestWorkThatGoesOn(t *testing.T) {
	r := newRig(t)
	all := r.pass()
	r.device.works = true
	for range 2 {
		if n := r.pass(); n != all {
			t.Errorf("a pass has copied %d sectors, want all %d", n, all)
		}
	}
	if r.device.asked != 1 {
		t.Errorf("asked for sums %d times, want once", r.device.asked)
	}
	r.device.works = false // as nothing is written from now on
	r.write(base)
	r.mustEnd(1)
}

// TestComesAndGoes: memory that is freed and allocated between the steps, at new addresses and at
// those of before.
func TestComesAndGoes(t *testing.T) {
	r := newRig(t)
	r.step()
	delete(r.device.pieces, base) // copied, and gone
	r.piece(base+3<<30, 5)
	r.pass()
	r.piece(base, 8)
	delete(r.device.pieces, base+2<<30)
	r.mustEnd(8)
	if sectors, _ := r.step(); !slices.Equal(sectors[:1], []uint64{base}) {
		t.Errorf("the next pass begins with %#x", sectors)
	}
	r.piece(base+7, 1) // of no whole sectors
	list, err := r.Changed(r.device.PresentPieces())
	if err != nil || !slices.Contains(list,
		gpubackend.Piece{Address: base + 7, Bytes: sectorsum.Bytes}) {
		t.Errorf("changed are %+v, %v", list, err)
	}
}

// TestPiecesThatTouch: what has changed is told for each piece, although one begins where another
// one ends. Who takes it up looks for it in the pieces.
func TestPiecesThatTouch(t *testing.T) {
	r := newRig(t)
	r.piece(base+3<<30, 4)
	r.piece(base+3<<30+4*sectorsum.Bytes, 2)
	pieces := r.device.PresentPieces()
	changed, err := r.Changed(pieces)
	if err != nil {
		t.Fatal(err)
	}
	if rest, err := gpubackend.Without(pieces, changed); err != nil || len(rest) != 0 {
		t.Errorf("%+v: left are %+v: %v", changed, rest, err)
	}
	if !slices.Equal(changed, pieces) {
		t.Errorf("%+v, want %+v", changed, pieces)
	}
}

// TestRandom: whatever happens between the steps, the end is right.
func TestRandom(t *testing.T) {
	for range 5 {
		r := newRig(t)
		for range 12 {
			r.step()
			for range rand.IntN(3) {
				at := base + uint64(rand.IntN(5))<<30
				switch b := r.device.pieces[at]; {
				case b == nil:
					r.piece(at, 1+rand.IntN(9))
				case rand.IntN(4) == 0:
					delete(r.device.pieces, at)
				default:
					r.write(at + uint64(rand.IntN(len(b))))
				}
			}
		}
		list, err := r.Changed(r.device.PresentPieces())
		if err != nil {
			t.Fatal(err)
		}
		r.mustEnd(gpubackend.PieceBytes(list) / sectorsum.Bytes)
		r.End()
	}
}

// TestNotNow: a copy that can't be made changes nothing, and a sector that couldn't be copied isn't
// taken for one that was.
func TestNotNow(t *testing.T) {
	r := newRig(t)
	r.pass()
	r.write(base)
	r.busy = errors.New("it is out")
	if _, _, err := r.Step(); !errors.Is(err, r.busy) {
		t.Errorf("%v", err)
	}
	r.busy, r.device.fails = nil, gpubackend.Unknown
	if _, _, err := r.Step(); err == nil {
		t.Error("memory that can't be compared is")
	}
	if _, err := r.Changed(r.device.PresentPieces()); err == nil {
		t.Error("memory that can't be compared hasn't changed")
	}
	r.device.fails = gpubackend.Success
	r.mustEnd(1)
	r.device.fails = gpubackend.Unknown
	r.sums = map[uint64]copiedSector{}
	if _, _, err := r.Step(); err == nil || len(r.sums) > 0 {
		t.Errorf("copied: %v, with %d sums", err, len(r.sums))
	}
	r.device.fails = gpubackend.Success
	r.End()
	if _, _, err := r.Step(); !errors.Is(err, errNone) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := r.Changed(nil); !errors.Is(err, errNone) {
		t.Errorf("after the end: %v", err)
	}
	if _, _, err := r.Early(nil); !errors.Is(err, errNone) {
		t.Errorf("after the end: %v", err)
	}
	for _, fd := range []int{-1, 0} {
		if r.Begin(fd, nil) == nil {
			t.Errorf("file %d is a buffer", fd)
		}
	}
	if err := r.Begin(r.file, nil); err != nil {
		t.Fatal(err)
	}
	r.has = map[uint64][]byte{}
	r.mustEnd(51) // nothing of before counts
}
