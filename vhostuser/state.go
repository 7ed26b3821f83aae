// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// StateSaver is a Device whose state can be taken along when its VM is saved or migrated.
// DEVICE_STATE is offered for such a device only.
type StateSaver interface {
	Device

	// SaveState writes all that another device needs to take this one's place, except rings and
	// guest memory. No queue runs. An error says why the VM can't be saved: it is logged, as the
	// front end can't be told.
	SaveState(w io.Writer) error

	// LoadState takes what SaveState wrote, by way of a front end that may have changed it. No
	// queue runs, and there may be no memory yet. After an error the device is as it was.
	LoadState(r io.Reader) error
}

// Both run on a goroutine of their own, so that the front end can read what is written. No method
// of the device is called meanwhile.

// The payload of SET_DEVICE_STATE_FD.
const (
	StateSave    = 0 // direction
	StateLoad    = 1
	StateStopped = 0 // phase: no ring runs
)

// errTransfer marks a transfer of state that failed.
var errTransfer = errors.New("transfer of the device's state failed")

// transfer is the transfer under way, or the last one.
type transfer struct {
	quit chan struct{} // closed to end it
	done chan struct{} // closed when it has ended
	err  error         // set before done is closed
	told bool          // the log has how it ended; owned by Run's goroutine
}

// setDeviceStateFD begins a transfer. The answer says that there is no descriptor of ours to use in
// place of the front end's.
func (s *Session) setDeviceStateFD(m *Message) ([]byte, error) {
	dev, ok := s.dev.(StateSaver)
	if !ok {
		return nil, fmt.Errorf("%w: the device has no state", ErrProtocol)
	}
	v, err := decodeState(m.Payload) // two u32, as there
	if err != nil {
		return nil, err
	}
	direction, phase := v.Index, v.Num
	switch {
	case direction > StateLoad || phase != StateStopped:
		return nil, fmt.Errorf("%w: direction %d in phase %d", ErrProtocol, direction, phase)
	case len(m.FDs) != 1:
		return nil, fmt.Errorf("%w: no descriptor", ErrProtocol)
	}
	for i := range s.rings {
		if s.rings[i].running {
			return nil, fmt.Errorf("transfer the device's state: queue %d: %w", i, ErrRunning)
		}
	}
	if direction == StateSave {
		if err := s.dirty.check(); err != nil {
			return nil, err
		}
	}
	t := &transfer{quit: make(chan struct{}), done: make(chan struct{})}
	file := &stateFile{fd: m.takeFD(), quit: t.quit, timeout: s.conn.timeout}
	s.transfer = t
	go func() {
		defer close(t.done)
		defer func() { _ = file.fd.Close() }()
		t.err = s.protect(func() error {
			if direction == StateSave {
				return dev.SaveState(file)
			}
			return dev.LoadState(file)
		})
	}()
	return word(noFD), nil
}

// checkDeviceState waits for the end of the transfer and says how it went. It waits for as long as
// the front end moves bytes.
func (s *Session) checkDeviceState(*Message) ([]byte, error) {
	t := s.transfer
	if t == nil {
		return nil, fmt.Errorf("%w: there was none", errTransfer)
	}
	<-t.done
	t.told = true
	if t.err != nil {
		return nil, fmt.Errorf("%w: %w", errTransfer, t.err)
	}
	return word(0), nil
}

// endTransfer ends a transfer that is under way, before the device is used for anything else. A
// front end whose write fails, since the device refused its state, doesn't ask how it went.
func (s *Session) endTransfer() {
	t := s.transfer
	if t == nil {
		return
	}
	select {
	case <-t.done:
	default:
		close(t.quit)
		<-t.done
		if t.err == nil {
			t.err = errors.New("the front end went on without asking how it went")
		}
	}
	if t.err != nil && !t.told {
		s.refuse(SetDeviceStateFD, fmt.Errorf("%w: %w", errTransfer, t.err))
	}
	t.told = true
}

// stateFile is the descriptor of a transfer. It waits for the front end with a bound, and at most
// until quit is closed. The front end shares the descriptor's flags, so it isn't made non-blocking.
// Where the kernel has no write that doesn't wait, each write is so short that a descriptor that is
// ready has room for it.
type stateFile struct {
	fd      *FD
	quit    chan struct{}
	timeout time.Duration // without progress
	small   bool          // the kernel can't be asked
}

const (
	stateWrite = 4096 // PIPE_BUF: what a pipe that can be written takes without waiting
	stateLook  = 50 * time.Millisecond
)

// rwfNowait is RWF_NOWAIT: the write takes what there is room for. Pipes have it from Linux 6.5 on.
const rwfNowait = 8

// Write implements io.Writer.
func (f *stateFile) Write(b []byte) (n int, err error) {
	for n < len(b) {
		if err := f.await(unix.POLLOUT); err != nil {
			return n, err
		}
		k, err := f.put(b[n:])
		if err != nil && !again(err) {
			return n, fmt.Errorf("write: %w", err)
		}
		n += max(k, 0)
	}
	return n, nil
}

// put writes some of b to a descriptor that is ready. It doesn't wait.
func (f *stateFile) put(b []byte) (int, error) {
	if !f.small {
		n, err := unix.Pwritev2(f.fd.Int(), [][]byte{b}, -1, rwfNowait)
		if err == nil && n > 0 {
			return n, nil
		}
		f.small = !errors.Is(err, unix.EINTR)
	}
	return unix.Write(f.fd.Int(), b[:min(stateWrite, len(b))])
}

// Read implements io.Reader.
func (f *stateFile) Read(b []byte) (int, error) {
	for len(b) > 0 {
		if err := f.await(unix.POLLIN); err != nil {
			return 0, err
		}
		n, err := unix.Read(f.fd.Int(), b)
		switch {
		case err != nil && again(err):
		case err != nil:
			return 0, fmt.Errorf("read: %w", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
	return 0, nil
}

func again(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

// await waits until the descriptor is ready, or can't become ready.
func (f *stateFile) await(events int16) error {
	for begin := time.Now(); ; {
		fds := []unix.PollFd{{Fd: int32(f.fd.Int()), Events: events}}
		look := unix.NsecToTimespec(int64(stateLook))
		n, err := unix.Ppoll(fds, &look, nil)
		if n == 1 || err != nil && !again(err) {
			return err
		}
		select {
		case <-f.quit:
			return fmt.Errorf("%w: the front end went on without it", errTransfer)
		default:
		}
		if time.Since(begin) > f.timeout {
			return fmt.Errorf("%w: nothing moved for %v", errTransfer, f.timeout)
		}
	}
}
