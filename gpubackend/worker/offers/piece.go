// SPDX-License-Identifier: Apache-2.0

package offers

import (
	"encoding/binary"
	"errors"

	"github.com/paracuda/paracuda/gpubackend"
)

var errNoFile = errors.New("the offer of memory came without its file")

// pieceBytes is the size of an offer's text for memory: start and size of the memory in its file.
// That doesn't come from the guest: the file may hold more, which the guest may not have.
const pieceBytes = 16

// OpenMemory offers memory that is in a file.
func (o *Offers) OpenMemory(s gpubackend.Shared, fd int) (*Offer, error) {
	return o.Open(Memory, textOf(s), fd)
}

// OpenMemoryAs is OpenMemory with a secret that was chosen before.
func (o *Offers) OpenMemoryAs(secret Secret, s gpubackend.Shared, fd int) (*Offer, error) {
	return o.OpenAs(secret, Memory, textOf(s), fd)
}

func textOf(s gpubackend.Shared) []byte {
	b := binary.LittleEndian.AppendUint64(nil, s.Start)
	return binary.LittleEndian.AppendUint64(b, s.Bytes)
}

// createdBytes is the size of an offer's text for memory without an address: its size.
const createdBytes = 8

// ofToken is the secret for an object that goes through the device process with a token.
func ofToken(token uint64) (s Secret) {
	binary.LittleEndian.PutUint64(s[:], token)
	return s
}

// OpenCreated offers memory without an address, which is a file, under a token.
func (o *Offers) OpenCreated(token, bytes uint64, fd int) (*Offer, error) {
	return o.OpenAs(ofToken(token), Created, binary.LittleEndian.AppendUint64(nil, bytes), fd)
}

// ReceiveCreated asks for such memory of another process.
func (o *Offers) ReceiveCreated(token uint64) (bytes uint64, fd int, err error) {
	text, fd, err := o.Receive(Created, ofToken(token), createdBytes)
	if err == nil && fd < 0 {
		err = errNoFile
	}
	if err != nil {
		return 0, -1, err
	}
	return binary.LittleEndian.Uint64(text), fd, nil
}

// ReceiveMemory asks for memory that another process offers. The caller fills in the offset.
func (o *Offers) ReceiveMemory(secret Secret) (s gpubackend.Shared, fd int, err error) {
	text, fd, err := o.Receive(Memory, secret, pieceBytes)
	if err == nil && fd < 0 {
		err = errNoFile
	}
	if err != nil {
		return s, -1, err
	}
	le := binary.LittleEndian
	return gpubackend.Shared{Start: le.Uint64(text), Bytes: le.Uint64(text[8:])}, fd, nil
}
