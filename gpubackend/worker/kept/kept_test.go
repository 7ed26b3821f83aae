// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/image"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) {
	_ = image.Host() // whose file stays open
	os.Exit(leaks.Main(m))
}

const sector = sectorsum.Bytes

// store is one that ends with its test.
func store(t *testing.T) (*Store, *atomic.Uint64) {
	t.Helper()
	var images atomic.Uint64
	s := &Store{Images: &images}
	t.Cleanup(func() {
		if s.Close(); images.Load() != 0 || s.Bytes() != 0 {
			t.Errorf("%d bytes count in the end", images.Load())
		}
	})
	return s, &images
}

// pieces are so many sectors large, each at its own address.
func pieces(sizes ...uint64) (list []gpubackend.Piece) {
	for i, n := range sizes {
		if n > 0 {
			list = append(list, gpubackend.Piece{Address: uint64(i+1) << 32, Bytes: n * sector})
		}
	}
	return list
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestUpdates: what lies together is one update. The first time that is all, later what has other
// sums.
func TestUpdates(t *testing.T) {
	s, images := store(t)
	list := pieces(2, 3, 1)
	must(t, s.Fit(list))
	all := s.All(list)
	if len(all) != 1 || len(all[0].Image) != 6*sector || !slices.Equal(all[0].Pieces, list) ||
		images.Load() != 6*sector || s.Known() {
		t.Fatalf("%d updates, %d bytes", len(all), images.Load())
	}
	if r := s.Changed(list, make([]uint64, 6)); len(r) != 1 || len(r[0].Image) != 6*sector {
		t.Errorf("%d updates of what isn't known", len(r))
	}
	s.Note(list, []uint64{1, 2, 3, 4, 5, 6})
	if r := s.Changed(list, []uint64{1, 2, 3, 4, 5, 6}); !s.Known() || len(r) != 0 {
		t.Errorf("%d updates of what didn't change", len(r))
	}
	r := s.Changed(list, []uint64{1, 0, 0, 4, 0, 6})
	if len(r) != 2 || !slices.Equal(r[0].Pieces, []gpubackend.Piece{
		{Address: 1<<32 + sector, Bytes: sector}, {Address: 2 << 32, Bytes: sector}}) ||
		!slices.Equal(r[1].Pieces, []gpubackend.Piece{{Address: 2<<32 + 2*sector, Bytes: sector}}) {
		t.Fatalf("%+v", r)
	}
	if &r[0].Image[0] != &all[0].Image[sector] || &r[1].Image[0] != &all[0].Image[4*sector] ||
		len(r[1].Image) != sector {
		t.Error("an update isn't where its pieces' copies are")
	}
	s.Note(list, nil)
	if s.Known() || len(s.Changed(list, make([]uint64, 6))) != 1 {
		t.Error("it is known")
	}
}

// TestFit: what stays keeps its place and its sums; what goes is given back, and so is memory of
// which little is used.
func TestFit(t *testing.T) {
	s, images := store(t)
	must(t, s.Fit(pieces(4, 4, 1)))
	s.Note(pieces(4, 4, 1), []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9})
	copy(s.All(pieces(4))[0].Image, "hello")
	must(t, s.Fit(pieces(4, 2, 1, 5))) // the second is another now
	if images.Load() != 12*sector || len(s.slabs) != 2 {
		t.Errorf("%d sectors, in %d slabs", images.Load()/sector, len(s.slabs))
	}
	if first := s.All(pieces(4))[0].Image; string(first[:5]) != "hello" {
		t.Errorf("the first piece has %q", first[:5])
	}
	sums := []uint64{1, 2, 3, 4, 0, 0, 9, 0, 0, 0, 0, 0}
	if r := s.Changed(pieces(4, 2, 1, 5), sums); len(r) != 1 || len(r[0].Image) != 7*sector {
		t.Errorf("%d updates of what is new", len(r))
	}
	must(t, s.Fit(pieces(0, 2, 1, 5))) // of the first slab one sector of nine is left
	if images.Load() != 8*sector || len(s.slabs) != 2 || s.Known() {
		t.Errorf("%d sectors, in %d slabs, known: %t", images.Load()/sector, len(s.slabs),
			s.Known())
	}
	must(t, s.Fit(nil))
	if images.Load() != 0 || len(s.slabs) != 0 {
		t.Errorf("%d sectors, in %d slabs", images.Load()/sector, len(s.slabs))
	}
	if s.Fit([]gpubackend.Piece{{Address: 1, Bytes: 1 << 62}}) == nil || s.Bytes() != 0 {
		t.Error("more than there are addresses")
	}
}
