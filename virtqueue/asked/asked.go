// SPDX-License-Identifier: Apache-2.0

// Package asked makes calls on which another process may decide, while that process may die and
// another one take its place. The kernel doesn't give a call to the next one that the dead one has
// received and not answered. When its thread gets a signal, the kernel makes the call again, and
// the next process receives it.
//
// # Who owns what
//
// The package has the list of threads that are in such a call: of the whole process, as threads
// are. All functions may be called from anywhere.
package asked

import (
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

var in = struct {
	mu      sync.Mutex
	threads map[int]bool // guarded by mu
}{threads: map[int]bool{}}

// Call makes a call on which another process may decide: f makes it, on the thread that it is
// called on, and calls no function of this package.
func Call(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	note(thread, true)
	defer note(thread, false)
	return f()
}

func note(thread int, is bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if is {
		in.threads[thread] = true
	} else {
		delete(in.threads, thread)
	}
}

// Again has the calls made again that wait now, and says how many threads make one.
func Again() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	for thread := range in.threads {
		// The Go runtime has a handler for this signal that restarts calls (SA_RESTART), and knows
		// that others may send it.
		_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
	}
	return len(in.threads)
}
