// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Waiting calls are polled even while the worker sleeps: the pause grows with the time that nothing happened.
const (
	minPause = 20 * time.Microsecond
	maxPause = time.Millisecond
)

// sleep waits for the guest, the mover or the device process, after announcing it and looking once more.
func (w *Worker) sleep(idle time.Duration) error {
	if w.arena != nil {
		w.arena.SetSleeping(true)
		defer w.arena.SetSleeping(false)
		if w.arena.Pending() || w.hostFuncs.advance(w) {
			return nil
		}
	}
	more, err := w.enableKick()
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	defer w.disableKick()
	if more {
		return nil
	}
	w.state.Count(handover.Sleeps, 1)
	w.watchdog.asleep.Store(true)
	defer w.watchdog.asleep.Store(false)
	return w.poll(w.pause(idle))
}

func (w *Worker) enableKick() (more bool, err error) {
	w.chains.mu.Lock()
	defer w.chains.mu.Unlock()
	return w.queue.EnableKick()
}

func (w *Worker) disableKick() {
	w.chains.mu.Lock()
	defer w.chains.mu.Unlock()
	w.queue.DisableKick()
}

// pause is how long to sleep at most: for ever unless calls wait for the GPU, which has no descriptor to sleep on, or
// a batch grows.
func (w *Worker) pause(idle time.Duration) time.Duration {
	pause := time.Duration(-1)
	if len(w.waiters) > 0 || w.copies.active() {
		pause = min(max(idle/8, minPause), maxPause)
	}
	if until := w.batch.until; !until.IsZero() {
		if left := max(time.Until(until), 0); pause < 0 || left < pause {
			pause = left
		}
	}
	return pause
}

func (w *Worker) poll(pause time.Duration) error {
	fds := []unix.PollFd{
		{Fd: int32(w.kick.Fd()), Events: unix.POLLIN},
		{Fd: int32(w.wake), Events: unix.POLLIN},
	}
	if w.mover != nil && w.copies.active() {
		fds = append(fds, unix.PollFd{Fd: int32(w.mover.FD()), Events: unix.POLLIN})
	}
	var timeout *unix.Timespec
	if pause >= 0 {
		t := unix.NsecToTimespec(pause.Nanoseconds())
		timeout = &t
	}
	if _, err := unix.Ppoll(fds, timeout, nil); err != nil && err != unix.EINTR {
		return fmt.Errorf("poll: %w", err)
	}
	if fds[0].Revents&unix.POLLIN != 0 {
		drain(int(fds[0].Fd))
		w.state.Count(handover.Kicks, 1)
	}
	if fds[1].Revents != 0 {
		drain(w.wake)
	}
	return nil
}
