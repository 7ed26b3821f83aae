// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"time"

	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/vm/scratch"
)

// powerOffTime is how long a VM may take to power off once its program has ended.
const powerOffTime = 10 * time.Second

// Result tells how a program ended, and in what it ran.
type Result struct {
	ExitCode    int    // 128 and its number if a signal ended the program
	FrontEnd    string // "QEMU 11.1.3 (TCG)" or "User Mode Linux"
	GuestKernel string // its release
	Output      error  // why some output is lost; nil if only as its reader closed the pipe
	Lost        []Lost
}

// Lost are files that the program wrote and that ended with the VM. Hidden ones don't count: they
// are programs' caches.
type Lost struct {
	Files int
	Dir   string // holds them all
}

// Run boots a VM, runs the program in it, and returns once the VM is gone. The error tells why the
// program could not be run to its end; an exit code other than 0 is no error.
func Run(ctx context.Context, c Config) (Result, error) {
	c, err := c.complete()
	if err != nil {
		return Result{}, err
	}
	dir, err := scratch.New()
	if err != nil {
		return Result{}, fmt.Errorf("prepare the VM: %w", err)
	}
	defer dir.Remove()
	host, guest, err := socket.Connect(socket.Stream)
	if err != nil {
		return Result{}, fmt.Errorf("make the link to the VM: %w", err)
	}
	defer host.Close()
	m, err := start(ctx, &c, dir.Path, guest)
	guest.Close()
	if err != nil {
		return Result{}, err
	}
	defer m.release()
	return m.serve(ctx, &c, host)
}

// machine is a running VM.
type machine struct {
	*process
	frontEnd string
	helpers  []*process // serve the host's files to it
	copied   *clone     // nil if it booted itself
}

func start(ctx context.Context, c *Config, dir string, guest *os.File) (*machine, error) {
	if c.Kind == QEMU {
		return startQEMU(ctx, c, dir, guest)
	}
	c.step("booting User Mode Linux")
	p, err := startUML(c, dir, guest)
	if err != nil {
		return nil, err
	}
	return &machine{process: p, frontEnd: "User Mode Linux"}, nil
}

// release ends what serves the VM, after the VM itself.
func (m *machine) release() {
	for _, h := range m.helpers {
		h.end(0)
	}
}

// serve relays the program's streams until the VM is gone.
func (m *machine) serve(ctx context.Context, c *Config, host net.Conn) (Result, error) {
	s, err := newSession(host, c)
	if err != nil {
		m.end(0)
		return Result{}, err
	}
	s.copied = m.copied != nil
	stop := context.AfterFunc(ctx, func() { m.cmd.Process.Kill() })
	defer stop()
	code, err := s.run()
	if err != nil {
		host.Close()
	}
	m.end(powerOffTime)
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("run a program in a VM: %w", ctx.Err())
	}
	if errors.Is(err, errNoExit) {
		if device := notBuiltIn(m.log.last()); device != "" {
			return Result{}, fmt.Errorf("this QEMU has no %s: it was built without it: "+
				"apt-get install qemu-system-x86, or name another by PARACUDA_QEMU", device)
		}
		if s.copied && s.release == "" {
			err = m.copied.forget()
		}
		return Result{}, fmt.Errorf("%w; its last lines:%s", err, m.log.last())
	}
	return Result{ExitCode: code, FrontEnd: m.frontEnd, GuestKernel: s.release, Output: s.failed,
		Lost: s.lost}, err
}

// notBuiltIn is the device that QEMU says it doesn't have.
var notBuiltInText = regexp.MustCompile(`'([a-z0-9-]+)' is not a valid device model name`)

func notBuiltIn(said string) string {
	if m := notBuiltInText.FindStringSubmatch(said); m != nil {
		return m[1]
	}
	return ""
}
