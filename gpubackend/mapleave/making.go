// SPDX-License-Identifier: Apache-2.0

package mapleave

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/memfd"
)

// A worker on the software GPU asks for files in memory by the call that would make one. Who
// decides has the file made, and the worker gets it as what the call returns.

// atOnce has the kernel answer a call with the file that is given. A test has a flag that no kernel
// knows.
var atOnce uint32 = unix.SECCOMP_ADDFD_FLAG_SEND

// errMake refuses a call that makes another file.
var errMake = errors.New("not a file that a worker may have made")

// make answers a call that is to make a file.
func (x *Decider) make(listener int, call *notified) {
	refusal := unix.ENOMEM
	f, err := memfd.OfCall(call.arguments)
	if err != nil {
		err, refusal = errors.Join(errMake, err), unix.EACCES
	} else {
		err = x.policy.Make(f, func(fd int) error { return pass(listener, call, fd) })
	}
	if err == nil {
		return // the answer is sent
	}
	x.refused(Mapping{}, err)
	_ = request(listener, unix.SECCOMP_IOCTL_NOTIF_SEND,
		&decision{id: call.id, error: -int32(refusal)})
}

// pass gives the caller a file, at a number of the kernel's choice, and answers the call with it.
// Its thread may be gone, or make the call again: then it has no file, and there is nobody to
// answer.
func pass(listener int, call *notified, fd int) (err error) {
	h := handed{id: call.id, flags: atOnce, from: uint32(fd),
		givenFlags: unix.O_CLOEXEC}
	_, err = requested(listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, &h)
	if errors.Is(err, unix.EINVAL) { // before Linux 5.14 in two steps
		h.flags = 0
		var number uintptr
		number, err = requested(listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, &h)
		if err == nil {
			err = request(listener, unix.SECCOMP_IOCTL_NOTIF_SEND,
				&decision{id: call.id, value: int64(number)})
		}
	}
	// A signal to this thread may have taken the file out of an answer that was begun
	// (EINPROGRESS). Then the call returns 0, and is made again (memfd.Make).
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINPROGRESS) {
		err = nil
	}
	return err
}
