// SPDX-License-Identifier: Apache-2.0

// Package faults knows which of a VM's GPUs are broken or gone, as the VM's workers report, and
// logs it.
//
// A worker may lie: what it says counts only for its own VM, must name a GPU of the VM, and is kept
// once.
package faults

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
)

// Faults are those of a VM. Methods may be called from anywhere.
type Faults struct {
	gpus  int
	known []hostgpus.GPU // those of the host's that they are, if they are
	log   *logrus.Entry

	mu  sync.Mutex
	all []link.Fault
}

// New returns the faults of a VM with so many GPUs, none yet.
func New(gpus int, known []hostgpus.GPU, log *logrus.Entry) *Faults {
	return &Faults{gpus: max(1, gpus, len(known)), known: known, log: log}
}

// Told takes the report of a worker that serves a program.
func (x *Faults) Told(pid int32, f *handover.Fault) {
	if f == nil || f.GPU < 0 || f.GPU >= x.gpus || !gpubackend.Result(f.Result).OfGPU() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range x.all {
		if x.all[i].GPU == f.GPU && x.all[i].Result == f.Result {
			return
		}
	}
	x.all = append(x.all, link.Fault{GPU: f.GPU, Result: f.Result, Time: time.Now().Unix()})
	log := loglimit.Keep(x.log).WithFields(logrus.Fields{
		"gpu": f.GPU, "guest_pid": pid, "error": gpubackend.Result(f.Result),
	})
	if f.GPU < len(x.known) {
		log = log.WithField("uuid", x.known[f.GPU].UUID)
	}
	log.Error("a GPU of the VM is broken, or gone: paracuda probe tells what the kernel says of it")
}

// List is what was reported.
func (x *Faults) List() []link.Fault {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]link.Fault(nil), x.all...)
}
