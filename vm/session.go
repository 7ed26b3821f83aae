// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// errNoExit says that the link ended before the program did.
var errNoExit = errors.New("the VM ended before the program did")

// session relays one program's streams over a link.
type session struct {
	link    *link
	job     []byte
	stdin   io.Reader
	outputs [2]io.Writer
	release string // the guest kernel's, from its greeting
}

func newSession(stream io.ReadWriter, c Config) (*session, error) {
	text, err := job(c)
	if err != nil {
		return nil, err
	}
	return &session{
		link:    &link{stream: stream},
		job:     text,
		stdin:   c.Stdin,
		outputs: [2]io.Writer{c.Stdout, c.Stderr},
	}, nil
}

// run serves the link until the program has ended, and returns its exit code.
func (s *session) run() (int, error) {
	if err := s.greet(); err != nil {
		return 0, err
	}
	if s.stdin != nil {
		go s.sendInput()
	}
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
		case frameError:
			return 0, fmt.Errorf("start the program in the VM: %s", data)
		case frameExit:
			code, _ := u32(data)
			return int(code), nil
		}
	}
}

// greet waits for init and tells it what to run.
func (s *session) greet() error {
	t, data, err := s.link.receive()
	if err != nil {
		return errNoExit
	}
	version, ok := u32(data)
	if t != frameHello || !ok {
		return fmt.Errorf("greet the VM's init: frame %d came first", t)
	}
	if version != linkVersion {
		return fmt.Errorf("greet the VM's init: it speaks version %d, not %d: %s",
			version, linkVersion, runBuild)
	}
	s.release = string(data[4:])
	return s.link.send(frameJob, s.job)
}

// sendInput passes on standard input until it ends or the VM does.
func (s *session) sendInput() {
	buffer := make([]byte, dataMax)
	for {
		n, err := s.stdin.Read(buffer)
		if n > 0 && s.link.send(frameStdin, buffer[:n]) != nil {
			return
		}
		if err != nil {
			s.link.send(frameStdin, nil)
			return
		}
	}
}

// output writes what the program wrote. When nobody takes it any more, the
// program learns of it as from a closed pipe.
func (s *session) output(i int, data []byte) {
	w := s.outputs[i]
	if w == nil {
		return
	}
	if _, err := w.Write(data); err != nil {
		s.outputs[i] = nil
		s.link.send(frameClose, binary.LittleEndian.AppendUint32(nil, uint32(i+1)))
	}
}
