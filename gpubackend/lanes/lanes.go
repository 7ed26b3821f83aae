// SPDX-License-Identifier: Apache-2.0

// Package lanes carries a stream of bytes between two processes over several sockets, so that
// several processors copy at the same time: one socket is slower than a GPU's link.
//
// The stream's bytes go over the sockets in turn, in blocks of 256 KiB. Large writes and reads
// (WriteParts, ReadParts) use all of them at once.
//
// # Who owns what
//
// Pipe makes a Stream for this process, and a Far for the other one, to which its files go in a
// message, and which makes a Stream of them (Open). Stream and Far own their sockets. One goroutine
// uses a Stream.
//
// # Who may lie
//
// Who opens a Far believes who made it. Who made it believes nothing: what comes is a stream of
// arbitrary bytes, and a process that stops to read or write holds up the other end.
package lanes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/paracuda/paracuda/gpubackend/overlap"
	"github.com/paracuda/paracuda/gpubackend/socket"
)

const (
	blockBytes = 256 << 10
	// most is how many lanes there are at most.
	most = 8
)

// Stream is one end.
type Stream struct {
	lanes []*os.File
	at    int64 // bytes of the stream that have gone or come
}

// Far is the other end of a Stream, for another process.
type Far struct{ files []*os.File }

// Pipe returns a stream and its other end, both of which are to be closed.
func Pipe() (here *Stream, there *Far, err error) { return pipe(min(most, overlap.Width())) }

// pipe is Pipe with that many lanes.
func pipe(lanes int) (*Stream, *Far, error) {
	here, there := &Stream{}, &Far{}
	for range lanes {
		near, far, err := socket.Pair(socket.Stream)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("make the sockets of a stream: %w", err),
				here.Close(), there.Close())
		}
		here.lanes, there.files = append(here.lanes, near), append(there.files, far)
	}
	return here, there, nil
}

// FDs are its files, in the order in which Open needs them. They stay its own.
func (e *Far) FDs() (fds []int) {
	for _, f := range e.files {
		fds = append(fds, int(f.Fd()))
	}
	return fds
}

// Close closes its files: those of another process stay open.
func (e *Far) Close() error { return closeAll(e.files) }

// Open makes a stream of it in this process, to which its files belong then.
func (e *Far) Open() *Stream {
	s := &Stream{lanes: e.files}
	e.files = nil
	return s
}

// ErrStream says that files aren't the end of a stream.
var ErrStream = errors.New("it isn't the end of a stream")

// Open makes a stream of the files of a Far that another process has made. They belong to the
// stream.
func Open(fds []int) (*Stream, error) {
	s := &Stream{}
	for _, fd := range fds {
		s.lanes = append(s.lanes, os.NewFile(uintptr(fd), "lane"))
	}
	if len(fds) == 0 || len(fds) > most {
		return nil, errors.Join(fmt.Errorf("%w: %d files", ErrStream, len(fds)), s.Close())
	}
	return s, nil
}

// Close closes this end.
func (s *Stream) Close() error { return closeAll(s.lanes) }

func closeAll(files []*os.File) (err error) {
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// lane is the lane of a byte of the stream, and how many bytes it has from there on.
func (s *Stream) lane(at int64) (number int, bytes int) {
	return int(at / blockBytes % int64(len(s.lanes))), int(blockBytes - at%blockBytes)
}

// Write implements io.Writer.
func (s *Stream) Write(p []byte) (n int, err error) {
	for n < len(p) {
		i, bytes := s.lane(s.at)
		k, err := s.lanes[i].Write(p[n:min(n+bytes, len(p))])
		n, s.at = n+k, s.at+int64(k)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	i, bytes := s.lane(s.at)
	n, err := s.lanes[i].Read(p[:min(bytes, len(p))])
	s.at += int64(n)
	return n, err
}

// WriteParts writes parts one behind the other.
func (s *Stream) WriteParts(parts [][]byte) error {
	return s.each(parts, func(f *os.File, p []byte) error {
		_, err := f.Write(p)
		return err
	})
}

// ReadParts fills parts one behind the other.
func (s *Stream) ReadParts(parts [][]byte) error {
	return s.each(parts, func(f *os.File, p []byte) error {
		_, err := io.ReadFull(f, p)
		return err
	})
}

// each lets every lane do its share of parts. None waits for another: the other end may need any of
// them first.
func (s *Stream) each(parts [][]byte, do func(*os.File, []byte) error) error {
	errs := make([]error, len(s.lanes))
	var all sync.WaitGroup
	for i := range s.lanes {
		all.Go(func() { errs[i] = s.share(i, parts, do) })
	}
	all.Wait()
	for _, p := range parts {
		s.at += int64(len(p))
	}
	return errors.Join(errs...)
}

// share does the share of a lane.
func (s *Stream) share(lane int, parts [][]byte, do func(*os.File, []byte) error) error {
	at := s.at
	for _, p := range parts {
		for len(p) > 0 {
			i, bytes := s.lane(at)
			n := min(bytes, len(p))
			if i == lane {
				if err := do(s.lanes[lane], p[:n]); err != nil {
					return err
				}
			}
			p, at = p[n:], at+int64(n)
		}
	}
	return nil
}
