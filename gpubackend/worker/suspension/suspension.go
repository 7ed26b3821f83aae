// SPDX-License-Identifier: Apache-2.0

// Package suspension moves the device memory of a guest process out to the host's and in again,
// while all of its work stands still.
//
// # Who owns what
//
// The worker's loop owns a Suspension, which owns the image from MoveOut until End. As long as it
// has it nothing may run, so that the image stays true also when the memory is in again: it can go
// out once more without a copy.
//
// # What stays
//
// Memory that other processes have mapped, or may map any time, stays: what was offered to them or
// came from them. What the mover was lent is taken back before. The driver says what else can't be
// moved.
//
// # Who may lie
//
// The device process is believed. What is in device memory is only copied.
package suspension

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/image"
)

// Config is what a Suspension needs.
type Config struct {
	Driver gpubackend.Moving
	// Recall takes back what the mover has been lent.
	Recall func()
	// Shared says whether other processes may have memory of a range mapped.
	Shared func(address, bytes uint64) bool
	// Images counts the bytes of images: host memory that the device process has allowed.
	Images *atomic.Uint64
}

// Suspension is the memory of a process that was moved, if it was.
type Suspension struct {
	Config
	list  []gpubackend.Piece // that were planned to be moved
	image *image.Image       // of them; nil: there is none
	out   bool
}

// New returns a Suspension of memory that is in.
func New(c Config) *Suspension { return &Suspension{Config: c} }

var (
	errOut   = errors.New("device memory is out")
	errIn    = errors.New("device memory is in")
	errImage = errors.New("there is no image of device memory")
	errPlan  = errors.New("not what was planned to be moved")
)

// Out says whether memory is out.
func (s *Suspension) Out() bool { return s.out }

// ImageBytes is how much the image has that there is; 0: there is none.
func (s *Suspension) ImageBytes() uint64 {
	if s.image == nil {
		return 0
	}
	return gpubackend.PieceBytes(s.list)
}

// Planned is what can be moved, as Plan saw it.
func (s *Suspension) Planned() []gpubackend.Piece { return s.list }

// Save writes what is in the memory that was planned to be moved, one piece behind the other,
// whether it is out or in. Nothing is changed.
func (s *Suspension) Save(to io.Writer) error {
	if s.image != nil {
		_, err := to.Write(s.image.Bytes())
		return err
	}
	return s.SavePart(s.list, to)
}

// SavePart writes what is in some of the memory that was planned to be moved, and is in.
func (s *Suspension) SavePart(list []gpubackend.Piece, to io.Writer) error {
	if s.image != nil {
		return errOut
	}
	s.Recall()
	defer s.Driver.EndCopies()
	return eachPart(list, partBytes, func(part []gpubackend.Piece, b []byte) error {
		if r := s.Driver.SavePieces(part, b); r != gpubackend.Success {
			return fmt.Errorf("copy device memory out: %w", r.Err())
		}
		_, err := to.Write(b)
		return err
	})
}

// Fill is the reverse of Save, in a worker that has memory at the same addresses.
func (s *Suspension) Fill(list []gpubackend.Piece, from io.Reader) error {
	defer s.Driver.EndCopies()
	return eachPart(list, partBytes, func(part []gpubackend.Piece, b []byte) error {
		if _, err := io.ReadFull(from, b); err != nil {
			return fmt.Errorf("read device memory: %w", err)
		}
		if r := s.Driver.LoadPieces(part, b); r != gpubackend.Success {
			return fmt.Errorf("copy device memory in: %w", r.Err())
		}
		return nil
	})
}

// partBytes is how much device memory is in the host's at a time, on its way.
const partBytes = 4 << 20

// eachPart calls f for the pieces in parts of most bytes or less, each with room for its bytes.
func eachPart(
	list []gpubackend.Piece, most uint64, f func(part []gpubackend.Piece, b []byte) error,
) error {
	room := make([]byte, min(most, gpubackend.PieceBytes(list)))
	var part []gpubackend.Piece
	used := uint64(0)
	for i, p := range list {
		for p.Bytes > 0 {
			n := min(p.Bytes, most-used)
			part = append(part, gpubackend.Piece{Address: p.Address, Bytes: n})
			p.Address, p.Bytes, used = p.Address+n, p.Bytes-n, used+n
			if used < most && (p.Bytes > 0 || i+1 < len(list)) {
				continue
			}
			if err := f(part, room[:used]); err != nil {
				return err
			}
			part, used = part[:0], 0
		}
	}
	return nil
}

// Plan looks what can be moved out, and says how many bytes it is.
func (s *Suspension) Plan() uint64 {
	if s.out || s.image != nil {
		return gpubackend.PieceBytes(s.list)
	}
	s.list = nil
	for _, p := range s.Driver.Pieces() {
		if !s.Shared(p.Address, p.Bytes) {
			s.list = append(s.list, p)
		}
	}
	return gpubackend.PieceBytes(s.list)
}

// MoveOut moves what was planned, which must be so many bytes, to a new image, or none of it.
func (s *Suspension) MoveOut(bytes uint64) error {
	switch planned := gpubackend.PieceBytes(s.list); {
	case s.out:
		return errOut
	case s.image != nil:
		return errIn
	case planned != bytes:
		return fmt.Errorf("%w: %d bytes may be moved, and %d are planned", errPlan, bytes, planned)
	}
	i, err := s.newImage(bytes)
	if err != nil {
		return err
	}
	s.Recall()
	defer s.Driver.EndCopies()
	if r := s.Driver.SavePieces(s.list, i.Bytes()); r != gpubackend.Success {
		s.close(i)
		return fmt.Errorf("copy device memory out: %w", r.Err())
	}
	if r := s.Driver.LeavePieces(s.list); r != gpubackend.Success {
		s.close(i)
		return fmt.Errorf("give device memory back: %w", r.Err())
	}
	s.image, s.out = i, true
	return nil
}

// newImage makes an image, which counts before it has memory, and until it has none.
func (s *Suspension) newImage(bytes uint64) (*image.Image, error) {
	i, err := image.New(bytes)
	if err == nil {
		s.Images.Add(bytes)
	}
	return i, err
}

func (s *Suspension) close(i *image.Image) {
	bytes := uint64(len(i.Bytes()))
	i.Close()
	s.Images.Add(-bytes)
}

// MoveIn moves memory in again, or none of it: then it is still out. The image stays.
func (s *Suspension) MoveIn() error {
	if !s.out {
		return errIn
	}
	if r := s.Driver.ReturnPieces(s.list); r != gpubackend.Success {
		return fmt.Errorf("take device memory: %w", r.Err())
	}
	defer s.Driver.EndCopies()
	if r := s.Driver.LoadPieces(s.list, s.image.Bytes()); r != gpubackend.Success {
		s.Driver.LeavePieces(s.list)
		return fmt.Errorf("copy device memory in: %w", r.Err())
	}
	s.out = false
	return nil
}

// MoveBack undoes a MoveIn: the image still holds.
func (s *Suspension) MoveBack() error {
	switch {
	case s.out:
		return errOut
	case s.image == nil:
		return errImage
	}
	if r := s.Driver.LeavePieces(s.list); r != gpubackend.Success {
		return fmt.Errorf("give device memory back: %w", r.Err())
	}
	s.out = true
	return nil
}

// End gives the image up: the process goes on.
func (s *Suspension) End() error {
	if s.out {
		return errOut
	}
	if s.image != nil {
		go s.close(s.image) // the process needn't wait for that
	}
	s.list, s.image = nil, nil
	return nil
}
