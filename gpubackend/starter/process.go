// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a child.
type Process struct {
	number uint32
	pid    int
	ended  chan struct{}   // closed when the starter process says so
	gone   <-chan struct{} // closed when the starter process is gone
	how    error           // set before ended is closed
	pidfd
}

// Orphan is a child whose starter process is gone.
type Orphan struct{ pidfd }

// NewOrphan is the process that a descriptor (pidfd) names, which it owns. One that names none
// counts as a process that may never end.
func NewOrphan(fd int) *Orphan { return &Orphan{pidfd{fd: fd}} }

// Wait returns when it is gone. It is called once.
func (o *Orphan) Wait() error {
	o.await()
	return ErrGone
}

// pidfd names a process.
type pidfd struct {
	mu sync.Mutex
	fd int // -1 once it has ended
}

func newProcess(number uint32, pid, fd int, gone <-chan struct{}) *Process {
	return &Process{number: number, pid: pid, ended: make(chan struct{}), gone: gone,
		pidfd: pidfd{fd: fd}}
}

// end notes how it ended, and by which signal; 0: by none.
func (p *Process) end(how string, by syscall.Signal) {
	if how != "" {
		p.how = errors.New(how)
	}
	if p.how != nil && by != 0 {
		p.how = signaled{p.how, by}
	}
	close(p.ended)
}

// Number tells it from all others that the starter process has ever started.
func (p *Process) Number() uint32 { return p.number }

// PID is its number on the host, by which the GPU's driver knows it.
func (p *Process) PID() int { return p.pid }

// WithFD calls f with the descriptor that names it (pidfd), unless Wait has returned.
func (p *pidfd) WithFD(f func(fd int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd >= 0 {
		f(p.fd)
	}
}

// Kill kills it.
func (p *pidfd) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd >= 0 {
		_ = unix.PidfdSendSignal(p.fd, unix.SIGKILL, nil, 0)
	}
}

// Wait returns when it is gone, and says how it ended. It is called once. Whatever the starter
// process says, Wait asks the kernel whether it is gone: only then can it no longer touch the
// guest's memory.
func (p *Process) Wait() error {
	how := ErrGone
	select {
	case <-p.ended:
		how = p.how
	case <-p.gone:
	}
	p.await()
	return how
}

// await waits until the kernel says that it is gone.
func (p *pidfd) await() {
	for {
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		n, err := unix.Ppoll(fds, nil, nil)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	unix.Close(p.fd)
	p.fd = -1
}
