// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/hostuse"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// Child is a process that was started.
type Child interface {
	PID() int
	// Descriptor names the process (pidfd). It is closed once the process has ended.
	Descriptor() int
	// Wait waits for its end and says how it ended; nil: it ended as it should. It is called once.
	Wait() error
}

// Config is what the starter process does.
type Config struct {
	// Start starts a role with this connection, which the caller keeps.
	Start func(r Role, control *os.File) (Child, error)
	// Count says how much memory of each software GPU a process has; nil: nobody counts.
	Count func(pid int) ([ledger.GPUs]uint64, error)
	// Sockets are the paths of sockets, of kind Network, to which the device process may connect.
	Sockets []string
	Network string
	Made    []string // paths of sockets that the device process makes, and may have removed
}

// server is the starter process's side.
type server struct {
	Config
	conn *net.UnixConn

	waiting chan func() // that count, weigh or connect

	files watchedFiles

	last uint32 // the highest number of a request

	mu       sync.Mutex
	children map[uint32]running // by the requests that asked for them
}

// running is a child that hasn't ended.
type running struct {
	pid, fd int
	memory  *hostuse.Process // nil: it couldn't be opened
}

func (r *running) close() {
	unix.Close(r.fd)
	if r.memory != nil {
		r.memory.Close()
	}
}

// Serve serves a device process until it closes its end, which is no error. Then the caller must
// end the process.
func Serve(conn *net.UnixConn, c Config) error {
	s := &server{Config: c, conn: conn, waiting: make(chan func(), maxWaiting),
		children: map[uint32]running{}}
	defer close(s.waiting)
	defer s.files.close()
	go func() {
		for do := range s.waiting {
			do()
		}
	}()
	for {
		m, fd, err := receive(conn)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		var control *os.File
		if fd >= 0 {
			control = os.NewFile(uintptr(fd), "control")
		}
		if m.kind != list {
			s.last = max(s.last, m.id)
		}
		switch {
		case m.kind == start:
			s.start(m, control)
		case m.kind == reopen && control != nil:
			s.reopen(m, control)
		case m.kind == shut && control != nil:
			s.shut(m, control)
		case control != nil:
			err = errMessage
		case m.kind == makes:
			s.makeFile(m)
		case m.kind == count && s.Count != nil:
			s.beside(m, s.count)
		case m.kind == weigh:
			s.beside(m, s.weigh)
		case m.kind == connect && slices.Contains(s.Sockets, m.text):
			s.beside(m, s.connect)
		case m.kind == remove && slices.Contains(s.Made, m.text):
			s.remove(m)
		case m.kind == list:
			s.list(m)
		default:
			err = errMessage
		}
		if control != nil {
			control.Close()
		}
		if err != nil {
			return err
		}
	}
}

// remove removes a socket. What others have put there stays.
func (s *server) remove(m *message) {
	if is, err := os.Lstat(m.text); err == nil && is.Mode().Type() == os.ModeSocket {
		_ = os.Remove(m.text)
	}
	_ = send(s.conn, &message{kind: removed, id: m.id}, -1)
}

func (s *server) refuse(m *message, why error) {
	var errno syscall.Errno
	errors.As(why, &errno)
	_ = send(s.conn, &message{kind: failed, id: m.id, pid: uint32(errno), text: why.Error()}, -1)
}

var (
	errNoSocket = errors.New("a child's connection must be a socket")
	errMany     = errors.New("there are as many children as there may be")
	errBusy     = errors.New("too many requests are waiting")
)

// start starts a child, and reports its end whenever that comes.
func (s *server) start(m *message, control *os.File) {
	if control == nil || !isSocket(control) {
		s.refuse(m, errNoSocket)
		return
	}
	s.mu.Lock()
	_, again := s.children[m.id]
	many := len(s.children) >= MaxChildren
	s.mu.Unlock()
	if again || many {
		s.refuse(m, errMany)
		return
	}
	child, err := s.Start(m.role, control)
	if err != nil {
		s.refuse(m, err)
		return
	}
	pid, fd := child.PID(), child.Descriptor()
	// Now, since others may not look into a child once it serves a guest. Without its memory it
	// isn't weighed.
	memory, err := hostuse.Open(pid)
	if err != nil {
		memory = nil
	}
	s.mu.Lock()
	s.children[m.id] = running{pid, fd, memory}
	s.mu.Unlock()
	_ = send(s.conn, &message{kind: started, id: m.id, pid: uint32(pid)}, fd)
	go s.await(m.id, child)
}

// await waits for the end of a child and reports it.
func (s *server) await(id uint32, c Child) {
	told, by := &message{kind: ended, id: id}, signaled{}
	if err := c.Wait(); errors.As(err, &by) {
		told.pid, told.text = uint32(by.by), err.Error()
	} else if err != nil {
		told.text = err.Error()
	}
	s.mu.Lock()
	child := s.children[id]
	child.close()
	delete(s.children, id)
	s.mu.Unlock()
	s.files.ended(child.pid)
	_ = send(s.conn, told, -1)
}

// list reports all children. Their ends must be reported later: hence mu.
func (s *server) list(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.children {
		told := &message{kind: listing, id: id, pid: uint32(c.pid)}
		if err := send(s.conn, told, c.fd); err != nil {
			s.refuse(m, err)
			return
		}
	}
	_ = send(s.conn, &message{kind: listed, id: m.id, pid: s.last, text: knowsAll}, -1)
}

// maxWaiting is how many requests may wait for beside.
const maxWaiting = 16

// beside serves slow requests on a goroutine of its own, one after the other.
func (s *server) beside(m *message, do func(*message)) {
	select {
	case s.waiting <- func() { do(m) }:
	default:
		s.refuse(m, errBusy)
	}
}

func (s *server) count(m *message) {
	s.mu.Lock()
	children := slices.Collect(maps.Values(s.children))
	s.mu.Unlock()
	answer := &message{kind: counted, id: m.id}
	for _, c := range children {
		bytes, err := s.Count(c.pid)
		if errors.Is(err, os.ErrPermission) {
			s.refuse(m, err)
			return
		}
		for gpu := range bytes {
			if err == nil && (gpu == 0 || bytes[gpu] != 0) {
				answer.used = append(answer.used, usedBy{uint32(c.pid), uint32(gpu), bytes[gpu]})
			}
		}
	}
	_ = send(s.conn, answer, -1)
}

// connectTime is how long a socket's owner may take to accept.
const connectTime = 2 * time.Second

func (s *server) connect(m *message) {
	c, err := net.DialTimeout(s.Network, m.text, connectTime)
	if err != nil {
		s.refuse(m, err)
		return
	}
	defer c.Close()
	file, err := c.(*net.UnixConn).File()
	if err != nil {
		s.refuse(m, err)
		return
	}
	defer file.Close()
	_ = send(s.conn, &message{kind: connected, id: m.id}, int(file.Fd()))
}

func isSocket(f *os.File) bool {
	_, err := unix.GetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil
}
