// SPDX-License-Identifier: Apache-2.0

// Package idle says when a VM that doesn't use the GPU must give up what it holds of it.
//
// A VM counts as used from the start of its driver or of a program until some time after its driver
// has started, or its last program has ended. After that nothing is kept ready for its next
// program.
//
// # Who owns what
//
// The owner of a VM (package device/ahead) calls all methods under a lock of its own. The function
// that it gave to New is called on another goroutine, without that lock, and calls Over under it: a
// program may have come since.
package idle

import "time"

// VM records when a VM was used.
type VM struct {
	end       func()
	time      time.Duration // 0: it is never idle
	lately    bool          // a driver or a program came within time
	beginning int           // programs that begin
	timer     *time.Timer   // calls end; nil: no driver or program has come yet
}

// New returns a VM that nobody has used yet. end is called when it may be idle.
func New(after time.Duration, end func()) *VM { return &VM{end: end, time: after} }

// SetTime changes after how long it is idle; 0: never. It holds from the next Rested on.
func (v *VM) SetTime(after time.Duration) { v.time = after }

// Begin is called when a program is about to begin, and Began when it has, or can't.
func (v *VM) Begin() {
	v.lately = true
	v.beginning++
}

// Began is called after Begin, when the program has begun, or can't.
func (v *VM) Began() { v.beginning-- }

// Beginning says whether a program begins.
func (v *VM) Beginning() bool { return v.beginning > 0 }

// DriverCame is called when a driver starts.
func (v *VM) DriverCame() { v.lately = true }

// Gone is called when all programs end with their driver.
func (v *VM) Gone() { v.lately = false }

// Keeps says whether the VM holds what its next program needs.
func (v *VM) Keeps() bool { return v.time == 0 || v.lately }

// Rested starts the time again, unless a program uses the GPU.
func (v *VM) Rested(used bool) {
	if v.timer != nil {
		v.timer.Stop()
	}
	if v.time != 0 && !used && !v.Beginning() {
		v.timer = time.AfterFunc(v.time, v.end)
	}
}

// Over says whether the VM is idle now that its time is over. Then it keeps nothing.
func (v *VM) Over(used bool) bool {
	if v.time == 0 || used || v.Beginning() {
		return false
	}
	v.lately = false
	return true
}
