// SPDX-License-Identifier: Apache-2.0

package offers

import (
	"encoding/binary"
	"errors"

	"github.com/paracuda/paracuda/gpubackend"
)

// pieceBytes is the size of what an offer of memory says: start and size of the memory in its file.
// The guest doesn't say that: the file may hold more, which it may not have.
const pieceBytes = 16

// OpenMemory offers memory that is in a file.
func OpenMemory(s gpubackend.Shared, fd int) (*Offer, error) {
	b := binary.LittleEndian.AppendUint64(nil, s.Start)
	return Open(Memory, binary.LittleEndian.AppendUint64(b, s.Bytes), fd)
}

// ReceiveMemory asks for memory that another process offers. The offset is the caller's to fill in.
func ReceiveMemory(secret [SecretBytes]byte) (s gpubackend.Shared, fd int, err error) {
	text, fd, err := Receive(Memory, secret, pieceBytes)
	if err == nil && fd < 0 {
		err = errors.New("the offer of memory came without its file")
	}
	if err != nil {
		return s, -1, err
	}
	le := binary.LittleEndian
	return gpubackend.Shared{Start: le.Uint64(text), Bytes: le.Uint64(text[8:])}, fd, nil
}
