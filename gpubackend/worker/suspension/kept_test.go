// SPDX-License-Identifier: Apache-2.0

package suspension

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// wholeSectors is a device whose pieces are whole sectors. It counts what is copied.
type wholeSectors struct {
	device
	copied uint64
}

func (d *wholeSectors) Pieces() (list []gpubackend.Piece) {
	for at, b := range d.pieces {
		list = append(list, gpubackend.Piece{Address: at, Bytes: uint64(len(b))})
	}
	slices.SortFunc(list, func(a, b gpubackend.Piece) int {
		return cmp.Compare(a.Address, b.Address)
	})
	return list
}

// SavePieces takes pieces that begin in the middle of what there is.
func (d *wholeSectors) SavePieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	d.copies = true
	for _, p := range list {
		for at := p.Address; at < p.Address+p.Bytes; at += sectorsum.Bytes {
			image = image[copy(image[:sectorsum.Bytes], d.sector(at)):]
			d.copied += sectorsum.Bytes
		}
	}
	if len(image) > 0 {
		return gpubackend.InvalidValue
	}
	return d.result("save")
}

func (d *wholeSectors) SaveApart(list []gpubackend.Piece, images [][]byte) gpubackend.Result {
	return apart(list, images, d.SavePieces)
}

func (d *wholeSectors) LoadPieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	d.copies = true
	for _, p := range list {
		for at := p.Address; at < p.Address+p.Bytes; at += sectorsum.Bytes {
			image = image[copy(d.sector(at), image[:sectorsum.Bytes]):]
		}
	}
	return d.result("load")
}

// sector is what is there.
func (d *wholeSectors) sector(at uint64) []byte {
	for from, b := range d.pieces {
		if at-from < uint64(len(b)) {
			return b[at-from:][:sectorsum.Bytes]
		}
	}
	return nil
}

func (d *wholeSectors) LeavePieces(list []gpubackend.Piece) gpubackend.Result {
	if r := d.result("leave"); r != gpubackend.Success {
		return r
	}
	for _, p := range list {
		clear(d.pieces[p.Address])
	}
	return gpubackend.Success
}

func (d *wholeSectors) ReturnPieces([]gpubackend.Piece) gpubackend.Result {
	return d.result("return")
}

// program has memory on such a device: what there must be in it, and what there was the last time
// that it was suspended and the image was kept.
type program struct {
	*Suspension
	t      *testing.T
	dice   *rand.Rand
	device *wholeSectors
	want   map[uint64][]byte
	before map[uint64][]byte
	images atomic.Uint64
}

func newKept(t *testing.T, seed uint64) *program {
	t.Helper()
	k := &program{t: t, dice: rand.New(rand.NewPCG(seed, 1)), want: map[uint64][]byte{},
		device: &wholeSectors{device: device{pieces: map[uint64][]byte{}}}}
	k.Suspension = New(Config{Driver: k.device, Recall: func() {}, Images: &k.images,
		Shared: func(_, _ uint64) bool { return false }, Key: k.dice.Uint64})
	t.Cleanup(k.copy.Close)
	return k
}

// places is how many pieces there may be, each of mostSectors at the most.
const (
	places      = 6
	mostSectors = 5
)

// allocate puts memory at a place, as large as the dice say, with little in it.
func (k *program) allocate(place uint64) {
	b := make([]byte, (1+k.dice.IntN(mostSectors))*sectorsum.Bytes)
	b[k.dice.IntN(len(b))] = byte(k.dice.IntN(3))
	k.put(place<<32, b)
}

func (k *program) put(at uint64, b []byte) {
	k.device.pieces[at], k.want[at] = b, bytes.Clone(b)
}

// compute does to memory what a program does.
func (k *program) compute() {
	for range 1 + k.dice.IntN(4) {
		at := k.dice.Uint64N(places) << 32
		b := k.device.pieces[at]
		switch {
		case b == nil:
			k.allocate(at >> 32)
		case k.dice.IntN(4) == 0:
			delete(k.device.pieces, at)
			delete(k.want, at)
		case k.dice.IntN(4) == 0: // freed, and allocated again
			k.allocate(at >> 32)
		default:
			i := k.dice.IntN(len(b))
			b[i] ^= 1 << k.dice.IntN(8)
			k.want[at][i] = b[i]
		}
	}
	if len(k.device.pieces) == 0 {
		k.allocate(0)
	}
}

// unchanged is how much is as it was in a piece of the same size.
func (k *program) unchanged() (n uint64) {
	for at, b := range k.want {
		old := k.before[at]
		for i := 0; len(old) == len(b) && i < len(b); i += sectorsum.Bytes {
			if bytes.Equal(old[i:i+sectorsum.Bytes], b[i:i+sectorsum.Bytes]) {
				n += sectorsum.Bytes
			}
		}
	}
	return n
}

// freed says whether a place of before isn't there any more: others may have been given up with it.
func (k *program) freed() bool {
	for at, old := range k.before {
		if len(k.want[at]) != len(old) {
			return true
		}
	}
	return false
}

func (k *program) all() (n uint64) {
	for _, b := range k.want {
		n += uint64(len(b))
	}
	return n
}

// snapshot is what there is, as a copy.
func (k *program) snapshot() map[uint64][]byte {
	m := map[uint64][]byte{}
	for at, b := range k.want {
		m[at] = bytes.Clone(b)
	}
	return m
}

func (k *program) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// suspend moves out and in again, and goes on. What didn't change isn't copied, and nothing else.
func (k *program) suspend(keep bool) {
	k.t.Helper()
	want, all := k.unchanged(), k.all()
	compared := uint64(0) // the sector that is added up here, too
	if keep || k.before != nil {
		compared = sectorsum.Bytes
	}
	k.device.copied = 0
	n, err := k.MoveOut(k.Plan(false), keep)
	k.must(err)
	k.device.copied -= compared
	if n > want || n < want && !k.freed() || n+k.device.copied != all {
		k.t.Fatalf("%d bytes of %d are said to be unchanged, %d are, and %d were copied", n, all,
			want, k.device.copied)
	}
	var b bytes.Buffer
	k.must(k.Save(&b))
	rest := b.Bytes()
	for _, p := range k.All() {
		if !bytes.Equal(rest[:p.Bytes], k.want[p.Address]) {
			k.t.Fatalf("what is saved of %#x isn't what was there", p.Address)
		}
		rest = rest[p.Bytes:]
	}
	k.must(k.MoveIn())
	for at, b := range k.want {
		if !bytes.Equal(k.device.pieces[at], b) {
			k.t.Fatalf("what is at %#x isn't what was there", at)
		}
	}
	if k.Keeps() != keep || k.images.Load() < all {
		k.t.Fatalf("it keeps: %t, %d bytes count of %d", k.Keeps(), k.images.Load(), all)
	}
	k.must(k.End())
	if k.before = nil; keep {
		k.before = k.snapshot()
	}
}

// TestKeptAsAnOracleSays: whatever a program does between suspends, it finds what it had, and what
// is copied is what changed: a slow comparison of all bytes says what that is.
func TestKeptAsAnOracleSays(t *testing.T) {
	for seed := range uint64(4) {
		k := newKept(t, seed)
		for range 25 {
			k.compute()
			k.suspend(k.dice.IntN(8) != 0)
			if k.dice.IntN(8) == 0 {
				k.Forget()
				k.before = nil
			}
			if !k.Keeps() && k.KeptBytes() != 0 || k.Keeps() && k.KeptBytes() != k.all() {
				t.Fatalf("%d bytes are kept of %d, and it keeps: %t", k.KeptBytes(), k.all(),
					k.Keeps())
			}
		}
	}
}

// TestKeptWhereStepsFail: after a step that fails nothing is taken for true that isn't.
func TestKeptWhereStepsFail(t *testing.T) {
	k := newKept(t, 9)
	for range 40 {
		k.compute()
		step := []string{"sum", "save", "leave"}[k.dice.IntN(3)]
		k.device.fail = step
		n, err := k.MoveOut(k.Plan(false), true)
		k.device.fail = ""
		switch {
		case step == "sum" && (err != nil || k.Keeps() || n != 0):
			t.Fatalf("without sums: %d unchanged, it keeps: %t, %v", n, k.Keeps(), err)
		case step == "sum":
			k.must(k.MoveIn())
		case err == nil && step == "leave":
			t.Fatalf("%s fails, and nobody says so", step)
		case err == nil: // nothing had to be saved
			k.must(k.MoveIn())
		}
		k.must(k.End())
		k.before = nil
		if k.Keeps() {
			k.Forget()
		}
		k.compute()
		k.suspend(true)
	}
}

// TestWrongSums: with a GPU that adds up wrong nothing is kept, and nothing lost.
func TestWrongSums(t *testing.T) {
	k := newKept(t, 6)
	k.allocate(1)
	k.suspend(true)
	k.device.wrong = true
	for range 5 {
		k.compute()
		n, err := k.MoveOut(k.Plan(false), true)
		k.must(err)
		if n != 0 || k.Keeps() {
			t.Errorf("%d bytes are said to be unchanged, it keeps: %t", n, k.Keeps())
		}
		k.must(k.MoveIn())
		for at, b := range k.want {
			if !bytes.Equal(k.device.pieces[at], b) {
				t.Fatalf("what is at %#x isn't what was there", at)
			}
		}
		k.must(k.End())
	}
}

// TestForgotten: what is kept is given back when it is to be, and not before it is in again.
func TestForgotten(t *testing.T) {
	k := newKept(t, 5)
	k.allocate(1)
	k.allocate(2)
	k.suspend(true)
	if n := k.images.Load(); n != k.all() || k.ImageBytes() != 0 {
		t.Errorf("%d bytes count, of %d", n, k.all())
	}
	k.Forget()
	await(t, &k.images)
	_, err := k.MoveOut(k.Plan(false), true)
	k.must(err)
	k.Forget()
	if k.images.Load() != k.all() || k.Keeps() {
		t.Errorf("what is out is given up: %d bytes are left", k.images.Load())
	}
	k.must(k.MoveIn())
	for at, b := range k.want {
		if !bytes.Equal(k.device.pieces[at], b) {
			t.Errorf("what is at %#x isn't what was there", at)
		}
	}
	k.must(k.End())
	await(t, &k.images)
}
