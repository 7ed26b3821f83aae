// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"errors"
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/overlap"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// Image is device memory that was copied before. The offset of each byte is its address.
type Image io.ReaderAt

// reloadAhead fills device memory with what was copied before, all but what has changed since. It
// does so at once: to begin takes the driver longer than to copy a piece.
func (s *Saving) reloadAhead(x *saved.State, ahead Image) error {
	list, err := gpubackend.Without(x.Pieces, x.Changed)
	if err != nil {
		return fmt.Errorf("%w: %w", saved.ErrRecord, err)
	}
	if len(list) == 0 {
		return nil
	}
	from := &imageReader{image: ahead, list: list}
	if err := s.DeviceMemory.Fill(append([]gpubackend.Piece{}, list...), from); err != nil {
		return fmt.Errorf("what was copied ahead: %w", err)
	}
	return nil
}

// imagePart is how much of an image is read in one part.
const imagePart = 1 << 20

// imageReader reads pieces of an image, one behind the other, and several parts at the same time:
// the VM stands still meanwhile.
type imageReader struct {
	image Image
	list  []gpubackend.Piece // what is left of them
}

// Read implements io.Reader. It fills b if there is as much.
func (r *imageReader) Read(b []byte) (int, error) {
	var from []uint64
	var to [][]byte
	n := uint64(0)
	for n < uint64(len(b)) && len(r.list) > 0 {
		p := &r.list[0]
		bytes := min(p.Bytes, uint64(len(b))-n, imagePart)
		from, to = append(from, p.Address), append(to, b[n:][:bytes])
		n += bytes
		p.Address, p.Bytes = p.Address+bytes, p.Bytes-bytes
		if p.Bytes == 0 {
			r.list = r.list[1:]
		}
	}
	if n == 0 {
		return 0, io.EOF
	}
	err := overlap.Each(len(from), func(i int) error {
		_, err := r.image.ReadAt(to[i], int64(from[i]))
		return err
	})
	if errors.Is(err, io.EOF) { // it is no end that anybody expects
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, err
	}
	return int(n), nil
}
