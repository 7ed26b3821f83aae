// SPDX-License-Identifier: Apache-2.0

package offers

import (
	"encoding/binary"
	"errors"

	"github.com/paracuda/paracuda/gpubackend"
)

// pieceBytes is the size of an offer's text for memory: start and size of the memory in its file.
// That doesn't come from the guest: the file may hold more, which the guest may not have.
const pieceBytes = 16

// OpenMemory offers memory that is in a file.
func OpenMemory(s gpubackend.Shared, fd int) (*Offer, error) {
	b := binary.LittleEndian.AppendUint64(nil, s.Start)
	return Open(Memory, binary.LittleEndian.AppendUint64(b, s.Bytes), fd)
}

// ReceiveMemory asks for memory that another process offers. The caller fills in the offset.
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
