// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// stay says on standard output that a test's child is ready, and waits for the end of its input.
func stay() int {
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return 0
}

// TestNotDumpable: a process without capabilities can read the environment of another one of its
// user, unless that isn't dumpable.
func TestNotDumpable(t *testing.T) {
	s, _, err := NewStarter(func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for deed, want := range map[string]bool{"stay": true, "hide": false} {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), deedVariable+"="+deed)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(c); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		look := exec.Command("cat", fmt.Sprintf("/proc/%d/environ", c.Process.Pid))
		if err := s.Start(look); err != nil {
			t.Fatal(err)
		}
		if seen := look.Wait() == nil; seen != want {
			t.Errorf("%s: seen %v", deed, seen)
		}
		in.Close()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestMayLook: a process with CAP_SYS_PTRACE may, and one that was started without rights may not.
func TestMayLook(t *testing.T) {
	has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_PTRACE, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := os.Geteuid() == 0 && has == 1; MayLook() != want {
		t.Errorf("this process may: %v, want %v", MayLook(), want)
	}
	s, _, err := NewStarter(func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), deedVariable+"=look")
	if err := s.Start(c); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("a child without rights: %v", err)
	}
}
