// SPDX-License-Identifier: Apache-2.0

// Package selfcheck tries packages cuda and mover on the GPU of the host, one line a check, with
// times and rates. Run it first on a new machine or with a new driver. It makes its own data and
// kernels, and compares every result.
//
// The last check makes a kernel fault, after which the process can't use the GPU any more: run it
// in a process of its own.
package selfcheck

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Config says what to check.
type Config struct {
	cuda.Options
	// StartMover starts a mover process and returns its control connection. Without it one runs in
	// this process.
	StartMover func() (*handover.Conn, error)
	// Bytes is the size of the larger transfers; 0 is 256 MiB.
	Bytes uint64
}

// ErrFailed means that checks failed; their lines say which.
var ErrFailed = errors.New("self-check failed")

// checker is what checks share.
type checker struct {
	config  Config
	device  *cuda.Device
	module  gpubackend.Module
	stream  gpubackend.Stream
	context gpubackend.Context
}

// check makes one line.
type check struct {
	name string
	run  func(c *checker) (string, error)
	// vital checks end the run when they fail.
	vital bool
}

var checks = []check{
	{"open the driver", (*checker).open, true},
	{"context and stream", (*checker).begin, true},
	{"load a module", (*checker).load, true},
	{"describe a function", (*checker).describe, false},
	{"library and kernels", (*checker).library, false},
	{"bad module and its log", (*checker).badModule, false},
	{"allocate and free 1 MiB", (*checker).allocate, false},
	{"allocate too much", (*checker).exhaust, false},
	{"copy in and out", (*checker).copyInOut, false},
	{"boxes in 2 and 3 dimensions", (*checker).boxes, false},
	{"vector add", (*checker).vectorAdd, false},
	{"launch rate", (*checker).launchRate, false},
	{"launch and see it done", (*checker).launchWait, false},
	{"events", (*checker).events, false},
	{"host function", (*checker).hostFunction, false},
	{"registered host memory", (*checker).registered, false},
	{"sums of sectors", (*checker).sums, false},
	{"kernel output", (*checker).output, false},
	{"mover: correctness", (*checker).moverCorrect, false},
	{"mover: rates", (*checker).moverRates, false},
	{"illegal address", (*checker).illegal, false},
}

// Run makes all checks and prints a line for each.
func Run(w io.Writer, config Config) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if config.Bytes == 0 {
		config.Bytes = 256 << 20
	}
	c := &checker{config: config}
	failed := 0
	for _, k := range checks {
		start := time.Now()
		note, err := k.run(c)
		took := time.Since(start).Round(10 * time.Microsecond)
		if err != nil {
			failed++
			fmt.Fprintf(w, "FAIL %-30s %10v  %v\n", k.name, took, err)
			if k.vital {
				break
			}
			continue
		}
		fmt.Fprintf(w, "ok   %-30s %10v  %s\n", k.name, took, note)
	}
	if c.device != nil {
		c.device.Close()
	}
	if failed > 0 {
		return fmt.Errorf("%w: %d of %d checks", ErrFailed, failed, len(checks))
	}
	return nil
}

// want returns an error unless r is the result wanted.
func want(what string, r, wanted gpubackend.Result) error {
	if r == wanted {
		return nil
	}
	return fmt.Errorf("%s: result %d, want %d", what, r, wanted)
}

// must is want of Success.
func must(what string, r gpubackend.Result) error { return want(what, r, gpubackend.Success) }

// firstError returns the first that isn't nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// wait polls the context until its work is done.
func (c *checker) wait() error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		r := c.device.ContextQuery()
		if r != gpubackend.NotReady {
			return must("query the context", r)
		}
		if time.Now().After(deadline) {
			return errors.New("the context's work hasn't ended after 20 s")
		}
	}
}

// rate formats bytes per time.
func rate(bytes uint64, d time.Duration) string {
	return fmt.Sprintf("%.1f GB/s", float64(bytes)/d.Seconds()/1e9)
}

// each formats a time per operation.
func each(d time.Duration, n int) string {
	return fmt.Sprintf("%.2f µs each", float64(d.Nanoseconds())/float64(n)/1e3)
}
