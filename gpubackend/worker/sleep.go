// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Waiting calls are polled even while the worker sleeps: the pause grows with the time that nothing
// happened, so that it makes a wait at most by this part of it longer.
const (
	pausePart = 64
	minPause  = 20 * time.Microsecond
	maxPause  = time.Millisecond
)

// napUntil is for how long a worker whose guest waits only naps: it doesn't have to be woken by a
// kick, which would cost the guest a system call, and by then the kick makes the wait less than a
// hundredth longer.
const napUntil = 10 * time.Millisecond

// maxNap is how late a command may be seen that comes during a nap.
const maxNap = 100 * time.Microsecond

// settleAfter is how long nothing must have happened before the driver is asked about work whose
// end it didn't see.
const settleAfter = 20 * time.Microsecond

// wakeSharply has the kernel end the pauses of the calling thread when they are over, not up to 50
// us later.
func wakeSharply() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// rest passes the time when there is nothing to do: it returns at once for as long as the policy
// has the worker poll, and sleeps then.
func (w *Worker) rest(busy bool) error {
	if busy {
		w.quiet.end()
		return nil
	}
	now := time.Now()
	spin := time.Duration(w.policy.SpinHostUs) * time.Microsecond
	idle := w.quiet.goOn(now, spin, w.waits())
	if idle >= min(spin, settleAfter) {
		w.waiting.Settle()
	}
	w.watchGate(now, idle, spin)
	switch {
	case idle < spin, w.quiet.due(spin), w.atGate(),
		w.copies.GoOn(now) && idle < wire.CopySpins*spin:
		return nil
	case w.admission != nil && w.admission.InFlight() && idle < napUntil:
		if w.heldBack() || !w.arena.Pending() {
			return w.poll(gatePause)
		}
		return nil
	case spin > 0 && w.waits() && idle < napUntil:
		return w.poll(min(w.pause(idle), maxNap))
	}
	return w.sleep(idle)
}

// waits says whether calls wait for the GPU, which has no descriptor to sleep on.
func (w *Worker) waits() bool { return w.waiting.Len() > 0 || w.copies.Active() }

// sleep waits for the guest, the mover or the device process, after announcing it and looking once
// more.
func (w *Worker) sleep(idle time.Duration) error {
	if held := w.heldBack(); w.arena != nil && (!held || w.hostFuncs.Busy()) {
		w.arena.SetSleeping(true)
		defer w.arena.SetSleeping(false)
		if !held && w.arena.Pending() || w.hostFuncs.Advance() {
			return nil
		}
	}
	more, err := w.chains.enableKick()
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	defer w.chains.disableKick()
	if more {
		return nil
	}
	w.state.Count(handover.Sleeps, 1)
	w.watchdog.asleep.Store(true)
	defer w.watchdog.asleep.Store(false)
	return w.poll(w.pause(idle))
}

// pause is how long to sleep at most: for ever unless calls wait for the GPU or a batch grows, or
// there is a gate at which work is in flight, or would be if it were not free any more.
func (w *Worker) pause(idle time.Duration) time.Duration {
	pause := time.Duration(-1)
	if w.waits() || w.admission != nil && w.admission.Unfinished() {
		pause = min(max(idle/pausePart, minPause), maxPause)
	}
	if until := w.batch.until; !until.IsZero() {
		if left := max(time.Until(until), 0); pause < 0 || left < pause {
			pause = left
		}
	}
	return pause
}

func (w *Worker) poll(pause time.Duration) error {
	fds := make([]unix.PollFd, ownFiles, ownFiles+2)
	if w.mover != nil && w.copies.Active() {
		fds = append(fds, unix.PollFd{Fd: int32(w.mover.FD()), Events: unix.POLLIN})
	}
	if w.closed() {
		fds = append(fds, unix.PollFd{Fd: int32(w.admission.Gate.FD()), Events: unix.POLLIN})
	}
	return w.pollFor(fds, pause)
}

// ownFiles are the files that a worker always waits for: of kicks and messages.
const ownFiles = 2

// pollFor waits for files, of which the first are its own; without end if pause is negative.
func (w *Worker) pollFor(fds []unix.PollFd, pause time.Duration) error {
	fds[0] = unix.PollFd{Fd: int32(w.kick.Fd()), Events: unix.POLLIN}
	fds[1] = unix.PollFd{Fd: int32(w.wake), Events: unix.POLLIN}
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
