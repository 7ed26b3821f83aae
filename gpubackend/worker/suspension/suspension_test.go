// SPDX-License-Identifier: Apache-2.0

package suspension

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// device is memory in pieces, which are nil while they are out. fail is the step that does.
type device struct {
	pieces map[uint64][]byte
	bytes  map[uint64]uint64
	fail   string
	wrong  bool // sums are
	copies bool // it has been copied, and EndCopies hasn't come yet
}

func (d *device) result(step string) gpubackend.Result {
	if d.fail == step {
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

func (d *device) Pieces() (list []gpubackend.Piece) {
	for at := uint64(1); at <= uint64(len(d.pieces)); at++ {
		list = append(list, gpubackend.Piece{Address: at, Bytes: d.bytes[at]})
	}
	return list
}

func (d *device) SavePieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	d.copies = true
	for _, p := range list {
		image = image[copy(image, d.pieces[p.Address]):]
	}
	return d.result("save")
}

func (d *device) SaveApart(list []gpubackend.Piece, images [][]byte) gpubackend.Result {
	return apart(list, images, d.SavePieces)
}

// apart saves pieces one by one.
func apart(
	list []gpubackend.Piece, images [][]byte,
	save func([]gpubackend.Piece, []byte) gpubackend.Result,
) gpubackend.Result {
	if !gpubackend.Apart(list, images) {
		return gpubackend.InvalidValue
	}
	for i := range list {
		if r := save(list[i:i+1], images[i]); r != gpubackend.Success {
			return r
		}
	}
	return gpubackend.Success
}

func (d *device) SumPieces(
	key uint64, list []gpubackend.Piece, sums []uint64,
) gpubackend.Result {
	d.copies = true
	for _, p := range list {
		n := p.Bytes / sectorsum.Bytes
		sectorsum.Each(key, d.pieces[p.Address], sums[:n])
		for i := range sums[:n] {
			if d.wrong {
				sums[i] = 7
			}
		}
		sums = sums[n:]
	}
	return d.result("sum")
}

func (d *device) EndCopies() { d.copies = false }

func (d *device) LeavePieces(list []gpubackend.Piece) gpubackend.Result {
	if r := d.result("leave"); r != gpubackend.Success {
		return r
	}
	for _, p := range list {
		d.pieces[p.Address] = nil
	}
	return gpubackend.Success
}

func (d *device) ReturnPieces(list []gpubackend.Piece) gpubackend.Result {
	if r := d.result("return"); r != gpubackend.Success {
		return r
	}
	for _, p := range list {
		d.pieces[p.Address] = make([]byte, p.Bytes)
	}
	return gpubackend.Success
}

func (d *device) LoadPieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	d.copies = true
	for _, p := range list {
		image = image[copy(d.pieces[p.Address], image):]
	}
	return d.result("load")
}

const shared = 2 // a piece that others have

type rig struct {
	*Suspension
	t        *testing.T
	device   *device
	want     map[uint64][]byte
	recalled int
	images   atomic.Uint64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, device: &device{pieces: map[uint64][]byte{}, bytes: map[uint64]uint64{}},
		want: map[uint64][]byte{}}
	for at := uint64(1); at <= 4; at++ {
		b := make([]byte, at*4096)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		r.device.pieces[at], r.device.bytes[at] = b, uint64(len(b))
		r.want[at] = bytes.Clone(b)
	}
	r.Suspension = New(Config{
		Driver: r.device, Recall: func() { r.recalled++ },
		Shared: func(address, _ uint64) bool { return address == shared },
		Images: &r.images, Key: rand.Uint64,
	})
	t.Cleanup(func() {
		r.copy.Close()
		if r.device.copies {
			t.Error("what copies pass through is never given back")
		}
	})
	return r
}

func (r *rig) mustBeIn() {
	r.t.Helper()
	for at, b := range r.want {
		if !bytes.Equal(r.device.pieces[at], b) {
			r.t.Errorf("piece %d isn't as it was", at)
		}
	}
	if r.Out() {
		r.t.Error("it says that memory is out")
	}
}

func (r *rig) mustBeOut() {
	r.t.Helper()
	for at := range r.want {
		if out := r.device.pieces[at] == nil; out != (at != shared) {
			r.t.Errorf("piece %d is out: %v", at, out)
		}
	}
	if !r.Out() {
		r.t.Error("it says that memory is in")
	}
}

// mustCountNone: an image is given back behind the scenes.
func (r *rig) mustCountNone() {
	r.t.Helper()
	await(r.t, &r.images)
}

func await(t *testing.T, images *atomic.Uint64) {
	t.Helper()
	for range 10000 {
		if images.Load() == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d bytes of images count", images.Load())
}

func (r *rig) moveOut() {
	r.t.Helper()
	_, err := r.MoveOut(r.Plan(false), false)
	r.must(err)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestOutAndIn(t *testing.T) {
	r := newRig(t)
	for range 3 {
		if n := r.Plan(false); n != 8*4096 {
			t.Fatalf("%d bytes are planned", n)
		}
		r.moveOut()
		r.mustBeOut()
		if err := r.End(); !errors.Is(err, errOut) {
			t.Errorf("goes on with memory out: %v", err)
		}
		if _, err := r.MoveOut(r.Plan(false), false); !errors.Is(err, errOut) {
			t.Errorf("out twice: %v", err)
		}
		r.must(r.MoveIn())
		r.mustBeIn()
		if err := r.MoveIn(); !errors.Is(err, errIn) {
			t.Errorf("in twice: %v", err)
		}
		if _, err := r.MoveOut(r.Plan(false), false); !errors.Is(err, errIn) {
			t.Errorf("a second image: %v", err)
		}
		r.must(r.MoveBack())
		r.mustBeOut()
		if err := r.MoveBack(); !errors.Is(err, errOut) {
			t.Errorf("back twice: %v", err)
		}
		r.must(r.MoveIn())
		r.mustBeIn()
		if n := r.images.Load(); n != 8*4096 {
			t.Errorf("%d bytes of images count", n)
		}
		r.must(r.End())
		r.mustCountNone()
		if err := r.MoveBack(); !errors.Is(err, errImage) {
			t.Errorf("back without an image: %v", err)
		}
	}
	if r.recalled != 3 {
		t.Errorf("loans were taken back %d times", r.recalled)
	}
}

// TestFailures: whichever step fails, memory is as before, and the next try succeeds.
func TestFailures(t *testing.T) {
	for _, step := range []string{"save", "leave"} {
		r := newRig(t)
		r.device.fail = step
		if _, err := r.MoveOut(r.Plan(false), true); err == nil {
			t.Errorf("%s fails, and nobody says so", step)
		}
		r.mustBeIn()
		r.mustCountNone()
		r.device.fail = ""
		r.must(r.End())
		r.moveOut()
		r.mustBeOut()
	}
	for _, step := range []string{"return", "load"} {
		r := newRig(t)
		r.moveOut()
		r.device.fail = step
		if r.MoveIn() == nil {
			t.Errorf("%s fails, and nobody says so", step)
		}
		r.mustBeOut()
		r.device.fail = ""
		r.must(r.MoveIn())
		r.mustBeIn()
	}
}

// TestOtherSizes: nothing is moved where something else may be than is planned.
func TestOtherSizes(t *testing.T) {
	r := newRig(t)
	planned := r.Plan(false)
	for _, bytes := range []uint64{0, 4096, planned - 1, planned + 1, math.MaxUint64} {
		if _, err := r.MoveOut(bytes, false); !errors.Is(err, errPlan) {
			t.Errorf("%d bytes: error %v", bytes, err)
		}
		r.mustBeIn()
	}
}

// TestSavedWhereItIs: what is written is the same whether memory is out or in, and fills a device
// that has none of it yet.
func TestSavedWhereItIs(t *testing.T) {
	r := newRig(t)
	if n := r.Plan(true); n != 10*4096 {
		t.Errorf("%d bytes are to be saved, want all, also those that others have", n)
	}
	var in, out bytes.Buffer
	r.must(r.Save(&in))
	r.mustBeIn()
	r.moveOut()
	if n := r.Plan(true); n != 10*4096 {
		t.Errorf("%d bytes are to be saved when others are out", n)
	}
	r.must(r.Save(&out))
	r.mustBeOut()
	if in.Len() != 10*4096 || !bytes.Equal(in.Bytes(), out.Bytes()) {
		t.Fatalf("%d bytes of memory that is in, %d that is out", in.Len(), out.Len())
	}
	list := r.All()
	r.must(r.MoveIn())
	for _, p := range list {
		clear(r.device.pieces[p.Address])
	}
	if err := r.Fill(list, bytes.NewReader(in.Bytes()[:in.Len()-1])); err == nil {
		t.Error("a byte is missing, and nobody says so")
	}
	r.must(r.Fill(list, &in))
	r.mustBeIn()
	for _, step := range []string{"save", "load"} {
		r.must(r.End())
		r.Plan(false)
		r.device.fail = step
		if step == "save" && r.Save(&in) == nil || step == "load" && r.Fill(list, &out) == nil {
			t.Errorf("%s fails, and nobody says so", step)
		}
		r.device.fail = ""
	}
}
