// SPDX-License-Identifier: Apache-2.0

package saved

import (
	"reflect"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

func TestState(t *testing.T) {
	s := &State{
		Environment: [][]byte{[]byte("CUDA_X=\xff\"\n")}, Inventory: []byte{0, 255},
		HostFuncs: 1 << 31,
		Queue: Queue{Base: 65535, InFlight: []uint16{1},
			Arena:    []wire.Run{{Address: 1 << 63, Bytes: 2}},
			Position: arena.Position{Consumed: 1<<32 - 1}, Due: true},
		Allocations: []Allocation{{1<<64 - 1, 2, 3}},
		Pieces:      []gpubackend.Piece{{Address: 5 << 44, Bytes: 6}},
	}
	b, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(b)
	if err != nil || !reflect.DeepEqual(s, got) {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "{", "{} {}", `{"Unknown":1}`, `{"HostFuncs":-1}`, "[]",
		`{"Queue":{"Base":65536}}`} {
		if s, err := Decode([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
}
