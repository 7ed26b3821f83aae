// SPDX-License-Identifier: Apache-2.0

// Package lanes carries a stream of bytes between two processes over several sockets, so that
// several processors copy at the same time: one socket is slower than a GPU's link.
//
// The stream's bytes go over the sockets in turn, in blocks of 256 KiB. Large writes and reads
// (WriteParts, ReadParts) use all of them at once.
//
// # Who owns what
//
// Pipe makes a Stream for this process, and a file for the other one, which makes a Stream of it
// (Open). The file is the first socket; the ends of the others come through it. A Stream owns its
// sockets. One goroutine uses it.
//
// # Who may lie
//
// Who opens a file believes who made it. Who made it believes nothing: what comes is a stream of
// arbitrary bytes, and a process that stops to read or write holds up the other end.
package lanes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

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

// Pipe returns a stream and the file with its other end, both of which are to be closed.
func Pipe() (here *Stream, there *os.File, err error) { return pipe(min(most, overlap.Width())) }

// pipe is Pipe with that many lanes.
func pipe(lanes int) (*Stream, *os.File, error) {
	here, there := &Stream{}, &Stream{}
	var err error
	for range lanes {
		var near, far *os.File
		if near, far, err = socket.Pair(socket.Stream); err != nil {
			break
		}
		here.lanes, there.lanes = append(here.lanes, near), append(there.lanes, far)
	}
	if err == nil {
		err = send(here.lanes[0], there.lanes[1:])
	}
	if err != nil {
		here.Close()
		there.Close()
		return nil, nil, fmt.Errorf("make the sockets of a stream: %w", err)
	}
	for _, f := range there.lanes[1:] {
		f.Close() // they are on their way
	}
	return here, there.lanes[0], nil
}

// send sends the ends of the other lanes over the first one.
func send(first *os.File, others []*os.File) error {
	var rights []byte
	if len(others) > 0 {
		var fds []int
		for _, f := range others {
			fds = append(fds, int(f.Fd()))
		}
		rights = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(int(first.Fd()), []byte{byte(len(others))}, rights, nil, 0)
}

// errStream says that a file isn't the end of a stream.
var errStream = errors.New("it isn't the end of a stream")

// Open makes a stream of the file that another process has made. The file belongs to the stream,
// after an error, too.
func Open(file *os.File) (*Stream, error) {
	s := &Stream{lanes: []*os.File{file}}
	if err := s.receive(); err != nil {
		s.Close()
		return nil, fmt.Errorf("open a stream: %w", err)
	}
	return s, nil
}

// receive receives the ends of the other lanes.
func (s *Stream) receive() error {
	count, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4*most))
	n, space, _, _, err := unix.Recvmsg(int(s.lanes[0].Fd()), count, oob, unix.MSG_CMSG_CLOEXEC)
	for errors.Is(err, unix.EINTR) {
		n, space, _, _, err = unix.Recvmsg(int(s.lanes[0].Fd()), count, oob, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:space])
	if err != nil {
		return err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return err
		}
		for _, fd := range fds {
			s.lanes = append(s.lanes, os.NewFile(uintptr(fd), "lane"))
		}
	}
	if n != 1 || int(count[0]) != len(s.lanes)-1 {
		return errStream
	}
	return nil
}

// Close closes this end.
func (s *Stream) Close() error {
	var err error
	for _, f := range s.lanes {
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
