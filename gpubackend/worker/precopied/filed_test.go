// SPDX-License-Identifier: Apache-2.0

package precopied

import (
	"math/rand/v2"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/gpubackend/worker/filed"
)

// goesOn has the program go on from a file, which has all of its memory, and begins anew.
func (r *rig) goesOn() {
	r.t.Helper()
	file := filed.New(filed.Config{Driver: r.device, Key: rand.Uint64})
	file.Note(r.device.PresentPieces())
	r.filed = nil
	for _, p := range r.device.PresentPieces() {
		r.filed = append(r.filed, r.device.at(p)...)
	}
	if err := r.Begin(r.file, file); err != nil {
		r.t.Fatal(err)
	}
	r.has = map[uint64][]byte{}
}

// TestFiled: what is in the file isn't copied, but what has changed since, or was allocated. A
// sector that was copied once is copied again, even if it is again what the file has.
func TestFiled(t *testing.T) {
	r := newRig(t)
	r.goesOn()
	if n := r.pass(); n != 0 {
		t.Errorf("%d sectors, of which none has changed", n)
	}
	if n := r.early(); n != 0 {
		t.Errorf("%d bytes aren't in the file, and nothing has changed", n)
	}
	second := uint64(base + 1<<30 + 3*sectorsum.Bytes)
	r.write(base + 5)
	r.write(second)
	r.piece(base+3<<30, 2)
	delete(r.device.pieces, base+2<<30)
	if n := r.pass(); n != 4 {
		t.Errorf("%d sectors, and four are new", n)
	}
	r.device.at(piece(base))[5]--
	r.write(second + 10*sectorsum.Bytes)
	if n := r.pass(); n != 2 {
		t.Errorf("%d sectors, and two have changed", n)
	}
	if n := r.early(); n != 0 {
		t.Errorf("%d bytes are in no copy, and nothing has changed since", n)
	}
	r.write(second + 11*sectorsum.Bytes) // in the file
	r.write(second)                      // copied
	if n := r.early(); n != 2*sectorsum.Bytes {
		t.Errorf("%d bytes are to be written, want two sectors", n)
	}
}

// TestFiledWhileWorkGoesOn: if nothing can be compared, what is in the file isn't copied; whether
// it has changed is found when the program stands still.
func TestFiledWhileWorkGoesOn(t *testing.T) {
	r := newRig(t)
	r.goesOn()
	r.piece(base+3<<30, 2)
	r.write(base)
	r.device.works = true
	for range 2 {
		if n := r.pass(); n != 2 {
			t.Errorf("%d sectors, and two are new", n)
		}
	}
	r.device.works = false
	if n := r.early(); n != sectorsum.Bytes {
		t.Errorf("%d bytes are to be written, want one sector", n)
	}
}

// sums are a file's, as somebody says.
type sums []filed.Stored

func (s sums) Sectors() (uint64, []filed.Stored) { return 1, s }

// TestWrongSumsOfAFile: a GPU whose sums are wrong can't hide what has changed. What doesn't lie
// where sectors do is written.
func TestWrongSumsOfAFile(t *testing.T) {
	r := newRig(t)
	var said sums
	for at, b := range r.device.pieces {
		for i := 0; i < len(b); i += sectorsum.Bytes {
			said = append(said, filed.Stored{Address: at + uint64(i), Sum: 7})
		}
	}
	if err := r.Begin(r.file, said); err != nil {
		t.Fatal(err)
	}
	r.device.wrong = true
	if n := r.pass(); n != 0 {
		t.Errorf("%d sectors differ, and all sums are the same", n)
	}
	if n := r.early(); n != 51*sectorsum.Bytes {
		t.Errorf("%d bytes are to be written, want all", n)
	}
	if err := r.Begin(r.file, sums{{Address: base + 1, Sum: 7}}); err != nil || len(r.sums) > 0 {
		t.Errorf("%v, %d sectors", err, len(r.sums))
	}
}
