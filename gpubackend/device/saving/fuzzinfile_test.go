// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"errors"
	"reflect"
	"testing"

	"github.com/paracuda/paracuda/virtqueue"
)

// FuzzInFile: what another process says of a file is refused with the reason, or within all bounds,
// and reads the same when it is passed on.
func FuzzInFile(f *testing.F) {
	f.Add((&InFile{Sum: 7, Away: true, Programs: []Filed{{Channel: 1, PID: 9, Name: "a", Bytes: 1,
		Anew: true, Base: 3, Held: []uint16{0, 1}}, {Number: 1}}}).Encode())
	for _, text := range []string{"{", `{"Programs":[]}`, `{"Programs":[{"Channel":-1}]}`,
		`{"Programs":[{},{}]}`, `{"Programs":[{"Held":[65535]}]}`,
		`{"Programs":[{"Held":[1,1]}]}`} {
		f.Add([]byte(text))
	}
	const channels = 3
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := DecodeInFile(b, channels)
		if err != nil {
			if !errors.Is(err, ErrInFile) || file != nil {
				t.Fatalf("%+v, %v", file, err)
			}
			return
		}
		at, numbers := map[int]bool{}, map[int]bool{}
		for _, p := range file.Programs {
			if p.Channel < 0 || p.Channel >= channels || p.Number < 0 || at[p.Channel] ||
				numbers[p.Number] || len(p.Name) > maxName || len(p.Held) > virtqueue.MaxSize {
				t.Fatalf("%+v", p)
			}
			at[p.Channel], numbers[p.Number] = true, true
			heads := map[uint16]bool{}
			for _, h := range p.Held {
				if int(h) >= virtqueue.MaxSize || heads[h] {
					t.Fatalf("head %d twice, or where none is: %+v", h, p)
				}
				heads[h] = true
			}
		}
		again, err := DecodeInFile(file.Encode(), channels)
		if err != nil || !reflect.DeepEqual(again.Encode(), file.Encode()) {
			t.Fatalf("%+v is read again as %+v, %v", file, again, err)
		}
	})
}
