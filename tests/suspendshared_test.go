// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"testing"
)

// TestSharedSuspendedToAFile suspends a VM to a file and resumes it from there, again and again,
// while two processes compute in turn, in memory that one has of the other, by a handle, by a
// descriptor and of a pool, and wait for each other's events. The workers of both end, and others
// go on. Memory is opened again now and then, by what was handed on at the beginning, by
// descriptors that are open meanwhile, and by some that lie in a socket.
func TestSharedSuspendedToAFile(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		p := startPolicyRigOf(t, vm, filepath.Join(programs, "keepsshared"), "0")
		p.allGoOn(t, 2)
		file := filepath.Join(t.TempDir(), "state")
		for range times(3, 20) {
			p.mustSave(t, file)
			if a := p.answer(t); len(a.Programs) != 0 || used(a) != 0 {
				t.Fatalf("%+v, %d bytes are used, want no program, none", a.Programs, used(a))
			}
			p.must(t, "resume", "--from", file)
			p.allGoOn(t, 2)
		}
	})
}

// TestSharedThroughDeviceProcesses does the same, and kills and replaces the device process
// meanwhile.
func TestSharedThroughDeviceProcesses(t *testing.T) {
	t.Parallel()
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		inAFileThroughDeviceProcesses(t, vm, "keepsshared")
	})
}
