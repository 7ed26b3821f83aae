// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// faultPTX has a kernel that fails: the fake library knows it by its name.
const faultPTX = ".version 8.0\n.target sm_75\n.address_size 64\n" +
	".visible .entry fault() { trap; }\n"

// fault has the program's context fail.
func (s *suspended) fault() {
	s.t.Helper()
	image, size := s.text(0, faultPTX)
	m := s.do(gpubackend.OpModuleLoadData, image, size, noBuffer, 0, noBuffer, 0, noBuffer, 0)
	name, size := s.text(0, "fault")
	f := s.do(gpubackend.OpModuleGetFunction, m, name, size)
	s.do(gpubackend.OpLaunchKernel, f, 0, 1|1<<32, 1|1<<32, 1|1<<32, 0, 0)
}

// mustFail executes a command, which answers with that error.
func (s *suspended) mustFail(want gpubackend.Result, op gpubackend.Op, words ...uint64) {
	s.t.Helper()
	s.seq++
	if r, err := s.call(0, op, s.seq, words...); r != want || err != nil {
		s.t.Fatalf("%s: %v, %v, want %v", op.Name(), r, err, want)
	}
}

// TestFailedSavedToAFile: a program whose context has failed is saved to a file, and moved with its
// VM, again and again. It has failed for ever, with the same error, and gets its pages back.
func TestFailedSavedToAFile(t *testing.T) {
	soft := newSuspended(t)
	library, workers := onLibrary(t)
	for name, x := range map[string]struct {
		s     *suspended
		spawn Spawner
		want  gpubackend.Result
	}{
		"software GPU": {soft, &processes{}, gpubackend.LaunchFailed},
		"library":      {library, workers, gpubackend.IllegalAddress},
	} {
		t.Run(name, func(t *testing.T) {
			s := x.s
			s.t = t
			s.allocate(apart)
			s.pin()
			s.fault()
			for range 3 {
				s.mustFail(x.want, gpubackend.OpCtxSynchronize)
				s.mustTell("")
				s.mustSuspend()
				s.mustResume()
				s.resumeFrom(s.saveTo())
				s.mustFail(x.want, gpubackend.OpMemFree, 4096)
				s.front.Stop(s.queues...)
				s.moveTo(Config{Spawn: x.spawn}, s.saveState(), roomy)
				s.mustFail(x.want, gpubackend.OpMemAlloc, 4096)
			}
			s.mustFail(x.want, gpubackend.OpDevicePrimaryCtxReset, 0)
			s.do(gpubackend.OpHostUnregister, 6)
			s.reap(1, 1)
		})
	}
}
