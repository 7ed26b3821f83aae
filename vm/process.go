// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// process is a program that runs beside this one and dies with it.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *tail
	done chan struct{} // closed once it has ended
	err  error         // how it ended, once done is closed
}

// startProcess starts cmd. The last of what it prints is kept; all of it goes to console if there
// is one.
func startProcess(cmd *exec.Cmd, console io.Writer) (*process, error) {
	p := &process{
		name: filepath.Base(cmd.Path),
		cmd:  cmd,
		log:  &tail{next: console},
		done: make(chan struct{}),
	}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go p.keep(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return p, nil
}

// keep starts the program and waits for it on one thread: the kernel ends the program when the
// thread that started it ends, as Go's threads may.
func (p *process) keep(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
		close(p.done)
	}
}

// end gives the process some time to end by itself, and then ends it.
func (p *process) end(grace time.Duration) {
	select {
	case <-p.done:
	case <-time.After(grace):
		p.cmd.Process.Kill()
		<-p.done
	}
}
