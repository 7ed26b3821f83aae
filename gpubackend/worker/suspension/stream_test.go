// SPDX-License-Identifier: Apache-2.0

package suspension

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// TestTake: pieces are taken in parts that are no larger than is asked for, each byte once.
func TestTake(t *testing.T) {
	p := newPieces([]gpubackend.Piece{{Address: 100, Bytes: 5}, {Address: 200, Bytes: 25},
		{Address: 300, Bytes: 10}, {Address: 400}, {Address: 500, Bytes: 1}})
	var got []gpubackend.Piece
	var sizes []uint64
	for p.left > 0 {
		part := p.take(10)
		got, sizes = append(got, part...), append(sizes, gpubackend.PieceBytes(part))
	}
	want := []gpubackend.Piece{{Address: 100, Bytes: 5}, {Address: 200, Bytes: 5},
		{Address: 205, Bytes: 10}, {Address: 215, Bytes: 10}, {Address: 300, Bytes: 10},
		{Address: 500, Bytes: 1}}
	if !slices.Equal(got, want) || !slices.Equal(sizes, []uint64{10, 10, 10, 10, 1}) {
		t.Errorf("%v in parts of %v", got, sizes)
	}
	if more := p.take(10); more != nil {
		t.Errorf("%v behind the end", more)
	}
}

// marked is memory whose bytes say where they are.
type marked struct {
	gpubackend.Moving
	fails bool
	calls int
}

func (m *marked) SavePieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	if m.calls++; m.fails {
		return gpubackend.OutOfMemory
	}
	for _, p := range list {
		for i := range p.Bytes {
			image[i] = byte(p.Address + i)
		}
		image = image[p.Bytes:]
	}
	return gpubackend.Success
}

func (m *marked) LoadPieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	want := make([]byte, len(image))
	if m.SavePieces(list, want); !bytes.Equal(image, want) {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// TestContent: content is read and written in the order of the pieces, in parts of any size, to
// their end and no further.
func TestContent(t *testing.T) {
	list := []gpubackend.Piece{{Address: 7, Bytes: 100}, {Address: 1000, Bytes: 33}}
	m := &marked{}
	r := &memoryReader{newPieces(list), m}
	all, err := io.ReadAll(r)
	if len(all) != 133 || all[99] != 106 || all[100] != byte(1000&255) || err != nil {
		t.Fatalf("%d bytes, %v", len(all), err)
	}
	w := &memoryWriter{newPieces(list), m}
	for rest := all; len(rest) > 0; {
		n := min(len(rest), 40)
		if k, err := w.Write(rest[:n]); k != n || err != nil {
			t.Fatal(k, err)
		}
		rest = rest[n:]
	}
	if _, err := w.Write([]byte{0}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a byte too many: %v", err)
	}
	m.fails, m.calls = true, 0
	if _, err := io.ReadAll(&memoryReader{newPieces(list), m}); err == nil || m.calls != 1 {
		t.Errorf("a device that fails: %d calls, %v", m.calls, err)
	}
}
