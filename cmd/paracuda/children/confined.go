// SPDX-License-Identifier: Apache-2.0

package children

import (
	"errors"

	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// confined is what a child may do when it is ready, by the GPU that it uses.
type confined struct {
	soft, cuda sandbox.Role
	files      func() sandbox.Files // on CUDA; on the software GPU it opens none
}

// errUnfiltered says why nobody can decide on what a worker maps.
var errUnfiltered = errors.New("it has no filter of system calls")

// role is what a child on that GPU is confined to, and its files; false: it has no filter.
func (o *childOptions) role(to *confined, gpu string) (sandbox.Role, sandbox.Files, bool, error) {
	if !o.sandbox {
		return 0, sandbox.Files{}, false, nil
	}
	if !o.watched {
		if err := sandbox.NotDumpable(); err != nil {
			return 0, sandbox.Files{}, false, err
		}
	}
	switch {
	case gpu == hostgpus.Soft:
		return to.soft, sandbox.Files{}, true, nil
	case isListed():
		return to.cuda, to.files(), true, nil
	}
	return 0, sandbox.Files{}, false, nil
}

// confine returns what a child calls when it is ready, before it serves a guest.
func (o *childOptions) confine(to confined) func(gpu string) error {
	return func(gpu string) error {
		role, files, is, err := o.role(&to, gpu)
		if err != nil || !is {
			return err
		}
		return process.Filter(role, files)
	}
}

// confineAsking returns the same for a worker, which then asks for what it maps
// (process.FilterAsking). The connection must stay open: to close it ends the process.
func (o *childOptions) confineAsking(
	to confined, control *handover.Conn,
) func(gpu string) (listener int, missing, err error) {
	return func(gpu string) (listener int, missing, err error) {
		role, files, is, err := o.role(&to, gpu)
		if err != nil || !is {
			return -1, errUnfiltered, err
		}
		number := -1
		control.WithFD(func(fd int) { number = fd })
		return process.FilterAsking(role, files, number)
	}
}
