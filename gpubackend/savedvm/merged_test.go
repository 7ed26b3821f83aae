// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/record"
)

// TestMergedReader: memory that is in many parts of two records is read in its order, however much
// is asked for at once. Damage in either record is found.
func TestMergedReader(t *testing.T) {
	const size = 5<<20 + 77
	var file bytes.Buffer
	var own [2][]byte
	var at [2]int64
	for i := range own {
		own[i] = make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(own[i])
		begin := int64(file.Len())
		w, err := record.NewWriter(&file, record.Header{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Begin(record.Section{Name: MemoryName, Bytes: size}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(own[i]); err != nil || w.End() != nil {
			t.Fatal(err)
		}
		_, err = record.Check(bytes.NewReader(file.Bytes()[begin:]),
			func(r *record.Reader, _ record.Section) error {
				at[i] = begin + r.At()
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	b := file.Bytes()
	in := [2]*record.Content{record.NewContent(bytes.NewReader(b), at[0], size),
		record.NewContent(bytes.NewReader(b), at[1], size)}
	r, all, want := rand.New(rand.NewPCG(1, 2)), &merged{}, []byte(nil)
	for from := [2]int{}; from[0] < size || from[1] < size; {
		i := r.IntN(2)
		n := min(size-from[i], r.IntN(300<<10))
		all.add(in[i], uint64(from[i]), uint64(n))
		want = append(want, own[i][from[i]:from[i]+n]...)
		from[i] += n
	}
	for _, piece := range []int{100 << 10, 3<<20 + 1, 1 << 30} {
		var got bytes.Buffer
		_, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{all.reader()},
			make([]byte, min(piece, 2*size+1)))
		if err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d at once: %d bytes of %d, %v", piece, got.Len(), len(want), err)
		}
	}
	for i := range at {
		b[at[i]+(3<<20)] ^= 1
		if _, err := io.ReadAll(all.reader()); !errors.Is(err, record.ErrRecord) {
			t.Errorf("record %d is damaged: %v", i, err)
		}
		b[at[i]+(3<<20)] ^= 1
	}
}
