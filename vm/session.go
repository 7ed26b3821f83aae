// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"
)

// errNoExit says that the link ended before the program did.
var errNoExit = errors.New("the VM ended before the program did")

// mostLost bounds how many lost files the host remembers for a guest.
const mostLost = 64

// session relays one program's streams over a link.
type session struct {
	link    *conn
	job     []byte
	stdin   io.Reader
	outputs [2]io.Writer
	copied  bool   // the VM is a copy of one that had booted
	release string // the guest kernel's, from its greeting
	lost    []Lost
	begun   func(what string) // told "" when the guest has its job
	part    int               // bytes of a job or of input in one frame
	acks    chan struct{}
	failed  error // why the program's output couldn't be written
}

func newSession(stream io.ReadWriter, c *Config) (*session, error) {
	p := &c.Program
	text, err := job(&c.Driver, p)
	if err != nil {
		return nil, err
	}
	return &session{
		link:    &conn{stream: stream},
		job:     text,
		stdin:   p.Stdin,
		outputs: [2]io.Writer{p.Stdout, p.Stderr},
		begun:   c.step,
		part:    partSize(c.Kind),
		acks:    make(chan struct{}, 1),
	}, nil
}

// partSize is how much the guest takes at once. A serial line of User Mode Linux holds 4096 bytes,
// and garbles them if it has to hold some back.
func partSize(k Kind) int {
	if k == UML {
		return 2048
	}
	return dataMax
}

// run serves the link until the program has ended, and returns its exit code.
func (s *session) run() (int, error) {
	if err := s.greet(); err != nil {
		return 0, err
	}
	s.begun("")
	if s.stdin != nil {
		go s.sendInput()
	}
	defer close(s.acks)
	for {
		t, data, err := s.link.receive()
		if err != nil {
			return 0, errNoExit
		}
		switch t {
		case frameStdout:
			s.output(0, data)
		case frameStderr:
			s.output(1, data)
		case frameAck:
			s.acknowledged()
		case frameError:
			return 0, guestError(data)
		case frameLost:
			s.lose(data)
		case frameExit:
			code, _ := u32(data)
			return int(code), nil
		}
	}
}

// greet waits for init and tells it what to run.
func (s *session) greet() error {
	if s.copied {
		if err := s.link.send(frameCopied, ofItsOwn(time.Now())); err != nil {
			return errNoExit
		}
	}
	var err error
	if s.release, err = greeting(s.link); err != nil {
		return err
	}
	return s.sendJob()
}

// greeting waits for init's greeting, and returns the release of the guest's kernel.
func greeting(link *conn) (release string, err error) {
	t, data, err := link.receive()
	if err != nil {
		return "", errNoExit
	}
	version, ok := u32(data)
	if t != frameHello || !ok {
		return "", fmt.Errorf("greet the VM's init: frame %d came first", t)
	}
	if version != linkVersion {
		return "", fmt.Errorf("greet the VM's init: it speaks version %d, not %d: %s",
			version, linkVersion, runBuild)
	}
	return string(data[4:]), nil
}

func guestError(text []byte) error {
	return fmt.Errorf("run the program in the VM: %s", text)
}

// lose takes note of files that end with the VM.
func (s *session) lose(data []byte) {
	if files, ok := u32(data); ok && len(s.lost) < mostLost {
		s.lost = append(s.lost, Lost{Files: int(files), Dir: string(data[4:])})
	}
}

func (s *session) sendJob() error {
	for chunk := range slices.Chunk(s.job, s.part) {
		if err := s.sendPart(chunk); err != nil {
			return err
		}
	}
	return s.sendPart(nil)
}

// sendPart sends a part of the job and waits until it is taken.
func (s *session) sendPart(part []byte) error {
	if err := s.link.send(frameJob, part); err != nil {
		return err
	}
	t, data, err := s.link.receive()
	switch {
	case err != nil:
		return errNoExit
	case t == frameError:
		return guestError(data)
	case t != frameAck:
		return fmt.Errorf("send the VM its job: frame %d came back", t)
	}
	return nil
}

func (s *session) acknowledged() {
	select {
	case s.acks <- struct{}{}:
	default: // more acks than frames were sent: ignored
	}
}

// sendInput passes on standard input until it ends or the VM does.
func (s *session) sendInput() {
	buffer := make([]byte, s.part)
	for {
		n, err := s.stdin.Read(buffer)
		if n > 0 && !s.sendChunk(buffer[:n]) {
			return
		}
		if err != nil {
			s.sendChunk(nil)
			return
		}
	}
}

// sendChunk sends some input and waits until it is taken; false if it never will be.
func (s *session) sendChunk(data []byte) bool {
	if s.link.send(frameStdin, data) != nil {
		return false
	}
	_, open := <-s.acks
	return open
}

// output writes what the program wrote. When nobody reads it anymore, the program is told, as by a
// closed pipe.
func (s *session) output(i int, data []byte) {
	w := s.outputs[i]
	if w == nil {
		return
	}
	if _, err := w.Write(data); err != nil {
		s.outputs[i] = nil
		if s.failed == nil && !errors.Is(err, syscall.EPIPE) {
			s.failed = err
		}
		s.link.send(frameClose, binary.LittleEndian.AppendUint32(nil, uint32(i+1)))
	}
}
