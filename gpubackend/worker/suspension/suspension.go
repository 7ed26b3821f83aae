// SPDX-License-Identifier: Apache-2.0

// Package suspension moves the device memory of a guest process out to the host's and in again,
// while all of its work stands still.
//
//	suspension.go  moves it
//	stream.go      its content as a stream
//
// # Who owns what
//
// The worker's loop owns a Suspension, which owns the image from MoveOut until End. While there is
// an image nothing may run. So the image stays true when the memory is in again, and the memory can
// go out once more without a copy.
//
// # What is kept
//
// The image may be kept after End, if the device process allows it: the next MoveOut copies only
// what has changed since (package kept). The memory's sums are taken while everything stands still,
// and compared the next time. If the driver can't compute sums, everything is copied and nothing
// kept.
//
// # What stays
//
// Memory that other processes have mapped, or may map at any time, stays: what was offered to them
// or came from them. What was lent to the mover is taken back first. The driver says what else
// can't be moved. When the process is saved, what was offered is written with the rest.
//
// # Who may lie
//
// The device process is believed. What is in device memory is only copied.
package suspension

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/overlap"
	"github.com/paracuda/paracuda/gpubackend/worker/kept"
	"github.com/paracuda/paracuda/gpubackend/worker/sectors"
)

// Driver is what a Suspension uses of gpubackend.Driver.
type Driver interface {
	gpubackend.Moving
	SumPieces(key uint64, list []gpubackend.Piece, sums []uint64) gpubackend.Result
}

// Config is what a Suspension needs.
type Config struct {
	Driver Driver
	// Recall takes back what the mover has been lent.
	Recall func()
	// Shared says whether other processes may have mapped memory of a range.
	Shared func(address, bytes uint64) bool
	// Images counts the bytes of images: host memory that the device process has allowed.
	Images *atomic.Uint64
	// Key is a random number.
	Key func() uint64
}

// Suspension is the memory of a process that may have been moved.
type Suspension struct {
	Config
	list  []gpubackend.Piece // that were planned to be moved
	stays []gpubackend.Piece // of this process's, that others may have mapped
	copy  *kept.Store        // of them, if image; otherwise of earlier content
	key   uint64             // of its sums
	image bool               // the copy is true
	keeps bool               // it is kept after End
	out   bool
}

// New returns a Suspension whose memory is in.
func New(c Config) *Suspension {
	return &Suspension{Config: c, copy: &kept.Store{Images: c.Images}, key: c.Key()}
}

var (
	errOut   = errors.New("device memory is out")
	errIn    = errors.New("device memory is in")
	errImage = errors.New("there is no image of device memory")
	errPlan  = errors.New("it isn't what was planned to be moved")
)

// Out says whether memory is out.
func (s *Suspension) Out() bool { return s.out }

// ImageBytes is the size of the image; 0: there is none.
func (s *Suspension) ImageBytes() uint64 {
	if !s.image {
		return 0
	}
	return gpubackend.PieceBytes(s.list)
}

// Keeps says whether the image is kept when the process goes on, or was kept.
func (s *Suspension) Keeps() bool { return s.keeps }

// KeptBytes is how much is kept.
func (s *Suspension) KeptBytes() uint64 {
	if !s.keeps {
		return 0
	}
	return s.copy.Bytes()
}

// All is what can be moved, as Plan saw it, and what stays since others may have it mapped: all
// that is saved.
func (s *Suspension) All() []gpubackend.Piece {
	if len(s.stays) == 0 {
		return s.list
	}
	return slices.SortedFunc(
		slices.Values(slices.Concat(s.list, s.stays)),
		func(a, b gpubackend.Piece) int { return cmp.Compare(a.Address, b.Address) })
}

// Save writes the content of all memory, one piece after the other, whether it is out or in. It
// changes nothing.
func (s *Suspension) Save(to io.Writer) error {
	if !s.image {
		return s.SavePart(s.All(), to)
	}
	stays := s.stays
	for _, u := range s.copy.All(s.list) {
		image := u.Image
		for _, p := range u.Pieces {
			for ; len(stays) > 0 && stays[0].Address < p.Address; stays = stays[1:] {
				if err := s.write(stays[:1], to); err != nil {
					return err
				}
			}
			if _, err := to.Write(image[:p.Bytes]); err != nil {
				return err
			}
			image = image[p.Bytes:]
		}
	}
	return s.write(stays, to)
}

// SavePart writes the content of some of the memory, which is in.
func (s *Suspension) SavePart(list []gpubackend.Piece, to io.Writer) error {
	if s.image {
		return errOut
	}
	return s.write(list, to)
}

// write writes the content of pieces that are in.
func (s *Suspension) write(list []gpubackend.Piece, to io.Writer) error {
	if len(list) == 0 {
		return nil
	}
	s.Recall()
	defer s.Driver.EndCopies()
	from := &memoryReader{newPieces(list), s.Driver}
	return overlap.CopyHere(to, from, int(min(partBytes, from.left)))
}

// Fill is the reverse of Save, in a worker that has memory at the same addresses.
func (s *Suspension) Fill(list []gpubackend.Piece, from io.Reader) error {
	defer s.Driver.EndCopies()
	to := &memoryWriter{newPieces(list), s.Driver}
	if to.left == 0 {
		return nil
	}
	limited := io.LimitReader(from, int64(min(to.left, math.MaxInt64)))
	if err := overlap.Copy(to, limited, int(min(partBytes, to.left))); err != nil {
		return fmt.Errorf("fill device memory: %w", err)
	}
	if to.left > 0 {
		return fmt.Errorf("read device memory: %w: %d bytes are missing", io.ErrUnexpectedEOF,
			to.left)
	}
	return nil
}

// Plan finds out what can be moved out, and returns how many bytes that is; with whole, how many
// there are to save.
func (s *Suspension) Plan(whole bool) uint64 {
	if !s.out && !s.image {
		s.list, s.stays = nil, nil
		for _, p := range s.Driver.Pieces() {
			if s.Shared(p.Address, p.Bytes) {
				s.stays = append(s.stays, p)
			} else {
				s.list = append(s.list, p)
			}
		}
	}
	bytes := gpubackend.PieceBytes(s.list)
	if whole {
		bytes += gpubackend.PieceBytes(s.stays)
	}
	return bytes
}

// MoveOut moves what was planned to an image, and returns how much of it the image already had. If
// that isn't as many bytes as the caller says, it moves nothing. With keep the image may be kept
// when the process goes on (Keeps).
func (s *Suspension) MoveOut(bytes uint64, keep bool) (unchanged uint64, err error) {
	switch planned := gpubackend.PieceBytes(s.list); {
	case s.out:
		return 0, errOut
	case s.image:
		return 0, errIn
	case planned != bytes:
		return 0, fmt.Errorf("%w: %d bytes may be moved, and %d are planned", errPlan, bytes,
			planned)
	}
	s.Recall()
	defer s.Driver.EndCopies()
	if unchanged, err = s.bringUp(keep); err != nil {
		s.Forget()
		return 0, err
	}
	if r := s.Driver.LeavePieces(s.list); r != gpubackend.Success {
		s.Forget()
		return 0, fmt.Errorf("give device memory back: %w", r.Err())
	}
	s.image, s.out = true, true
	return unchanged, nil
}

// bringUp brings the copy up to date, and returns how much of it was. If it fails, the copy's
// content isn't known.
func (s *Suspension) bringUp(keep bool) (unchanged uint64, err error) {
	known := s.copy.Known()
	if err := s.copy.Fit(s.list); err != nil {
		return 0, err
	}
	var sums []uint64
	if keep || known {
		sums = sectors.Sums(s.Driver, s.key, s.list)
	}
	s.keeps = keep && sums != nil
	list := s.copy.All(s.list)
	if sums != nil {
		list = s.copy.Changed(s.list, sums)
	}
	s.copy.Note(s.list, nil) // until all is copied
	unchanged = gpubackend.PieceBytes(s.list)
	var pieces []gpubackend.Piece
	var images [][]byte
	for _, u := range list {
		image := u.Image
		for _, p := range u.Pieces {
			pieces, images = append(pieces, p), append(images, image[:p.Bytes])
			image = image[p.Bytes:]
			unchanged -= p.Bytes
		}
	}
	if r := s.Driver.SaveApart(pieces, images); r != gpubackend.Success {
		return 0, fmt.Errorf("copy device memory out: %w", r.Err())
	}
	s.copy.Note(s.list, sums)
	return unchanged, nil
}

// Forget gives the image up if nothing needs it, or else lets it not be kept.
func (s *Suspension) Forget() {
	s.keeps = false
	if !s.image {
		s.drop()
	}
}

// drop gives the copy up.
func (s *Suspension) drop() {
	old := s.copy
	if old.Bytes() == 0 {
		return
	}
	s.copy = &kept.Store{Images: s.Images}
	go old.Close() // the process needn't wait for that
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
	for _, u := range s.copy.All(s.list) {
		if r := s.Driver.LoadPieces(u.Pieces, u.Image); r != gpubackend.Success {
			s.Driver.LeavePieces(s.list)
			return fmt.Errorf("copy device memory in: %w", r.Err())
		}
	}
	s.out = false
	return nil
}

// MoveBack undoes a MoveIn: the image still holds.
func (s *Suspension) MoveBack() error {
	switch {
	case s.out:
		return errOut
	case !s.image:
		return errImage
	}
	if r := s.Driver.LeavePieces(s.list); r != gpubackend.Success {
		return fmt.Errorf("give device memory back: %w", r.Err())
	}
	s.out = true
	return nil
}

// End lets the process go on. The image is given up, unless it is kept.
func (s *Suspension) End() error {
	if s.out {
		return errOut
	}
	s.list, s.stays, s.image = nil, nil, false
	if !s.keeps {
		s.drop()
	}
	return nil
}
