// SPDX-License-Identifier: Apache-2.0

package children

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/gpubackend/sandbox/ownroot"
)

// treeOf is what workers and mover see of the host's files.
func treeOf(gpu string) ownroot.Tree {
	t := ownroot.Tree{
		ReadOnly: append([]string{
			"/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local",
			"/etc/ld.so.cache",
		}, timeZone...),
		Program: process.Self(),
		Devices: []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"},
	}
	if gpu == hostgpus.Soft {
		return t
	}
	t.ReadOnly = append(t.ReadOnly, "/sys", "/etc/alternatives", "/run/opengl-driver")
	t.ReadOnly = append(t.ReadOnly, driverSettings...)
	t.ReadOnly = append(t.ReadOnly, filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))...)
	nvidia, _ := filepath.Glob("/dev/nvidia*")
	t.Devices = append(append(t.Devices, "/dev/dxg"), nvidia...)
	t.Empty = []string{"/tmp", "/dev/shm"}
	// Where the driver keeps what it has compiled, and its sockets.
	for _, dir := range []string{
		filepath.Clean(os.Getenv("TMPDIR")), ownCache(os.Getenv("HOME")),
	} {
		if filepath.IsAbs(dir) && dir != "/" && !slices.Contains(t.Empty, dir) {
			t.Empty = append(t.Empty, dir)
		}
	}
	// A cache that the operator names outlives the VM.
	if dir := os.Getenv(cacheVariable); filepath.IsAbs(dir) {
		t.Writable = append(t.Writable, filepath.Clean(dir))
	}
	slices.Sort(t.Empty) // a folder in another comes after it
	return t
}

func initCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "init TREE",
		Long:   "Started by paracuda device.",
		Hidden: true,
		Args:   cobra.ArbitraryArgs,
		RunE:   func(_ *cobra.Command, args []string) error { return runInit(args) },
	}
}

// runInit is the first process of a VM's PID namespace, which lives for as long as its standard
// input. It makes the tree, and prints what is wrong on standard output.
func runInit(args []string) error {
	var tree ownroot.Tree
	if os.Getpid() != 1 || len(args) != 1 || json.Unmarshal([]byte(args[0]), &tree) != nil {
		return errors.New("init: started by paracuda device")
	}
	if err := firstProcess(tree); err != nil {
		fmt.Print(err)
		return cli.ExitCode(1)
	}
	fmt.Print(initReady)
	os.Stdout.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

const initReady = "ready"

// firstProcess gives up all but what waiting needs.
func firstProcess(tree ownroot.Tree) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the process that starts others: %w", err)
	}
	if err := tree.Enter(); err != nil {
		return err
	}
	if err := process.LeaveNoCore(); err != nil {
		return err
	}
	if _, err := sandbox.KeepOnly(); err != nil {
		return err
	}
	if err := sandbox.NotDumpable(); err != nil {
		return err
	}
	// Those calls are enough to wait, whatever the GPU.
	return process.Filter(sandbox.SoftMover, sandbox.Files{})
}

// alone gives children of the calling thread the tree, and a PID namespace. Its first process ends
// with this one.
func alone(gpu string) error {
	text, err := json.Marshal(treeOf(gpu))
	if err != nil {
		return err
	}
	c := exec.Command(process.Self(), "init", string(text))
	c.Env = sandbox.Environment(os.Environ(), nil)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		in.Close()
		return err
	}
	err = sandbox.Alone()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		in.Close()
		out.Close()
		return err
	}
	said, err := io.ReadAll(io.LimitReader(out, 4096))
	if string(said) == initReady && err == nil {
		firsts = append(firsts, in)
		return unix.Chdir("/")
	}
	in.Close()
	_ = c.Wait()
	return errors.Join(errors.New(string(said)), err)
}

// firsts are what the first processes wait for the end of: that of this process.
var firsts []io.Closer
