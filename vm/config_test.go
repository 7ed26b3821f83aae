// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"slices"
	"strings"
	"testing"
)

func TestCompleteFillsIn(t *testing.T) {
	c, err := Config{Kind: QEMU, Program: Program{Name: "p"}}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if m := c.Machine; m.Kernel != "6.1" || m.Memory != 1<<30 || m.CPUs < 1 ||
		c.Device.VirtioID != 37 || c.Program.Dir == "" {
		t.Errorf("complete made %+v", c)
	}
	c, err = Config{Kind: UML, Machine: Machine{Memory: 5, CPUs: 3}, Device: Device{VirtioID: 9},
		Program: Program{Name: "p", Dir: "/d"}}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if c.Machine.Memory != 5 || c.Machine.CPUs != 3 || c.Program.Dir != "/d" ||
		c.Device.VirtioID != 9 {
		t.Errorf("complete changed what was given: %+v", c)
	}
}

func TestCompleteRefuses(t *testing.T) {
	for want, c := range map[string]Config{
		"no program is named": {Kind: UML},
		"no front end":        {Kind: "xen", Program: Program{Name: "p"}},
	} {
		if _, err := c.complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestGuestEnv(t *testing.T) {
	got := guestEnv([]string{"A=1=2", "DISPLAY=:0", "TMPDIR=/var/tmp", "PATH=/p", "broken", "A=3",
		"CUDA_VISIBLE_DEVICES=3", "E="}, "")
	want := []string{"PATH=/p", "HOME=/root", "TERM=dumb", "A=3", "E="}
	if !slices.Equal(got, want) {
		t.Errorf("the environment is %q, not %q", got, want)
	}
}

func TestGuestEnvPutsOurLibraryFirst(t *testing.T) {
	for want, env := range map[string][]string{
		"LD_LIBRARY_PATH=/ours":       nil,
		"LD_LIBRARY_PATH=/ours:/a:/b": {"LD_LIBRARY_PATH=/a:/b"},
	} {
		if got := guestEnv(env, "/ours"); !slices.Contains(got, want) {
			t.Errorf("the environment %q lacks %s", got, want)
		}
	}
}
