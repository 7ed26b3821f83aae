// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/internal/leaks"
)

// mainVariable makes this program run main in place of tests: the processes that tests start do.
const mainVariable = "PARACUDA_TEST_MAIN"

func TestMain(m *testing.M) {
	// What the starter process starts has no variable of the tests'.
	role := len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-")
	if role || os.Getenv(mainVariable) != "" {
		main()
		os.Exit(0)
	}
	os.Setenv(mainVariable, "1")
	// The one that starts the starter process stays.
	os.Exit(leaks.OfCommands(m,
		"github.com/paracuda/paracuda/cmd/paracuda/children.startForGood.func1"))
}

// TestChildrenAreNotForUsers starts by hand what the device process starts.
func TestChildrenAreNotForUsers(t *testing.T) {
	for _, role := range []string{"worker", "mover"} {
		out, err := exec.Command(os.Args[0], role).CombinedOutput()
		want := "paracuda: " + role + ": no control connection: paracuda device starts " + role +
			"s by itself\n"
		if err == nil || string(out) != want {
			t.Errorf("%s: %v, %q, want %q", role, err, out, want)
		}
	}
}

// TestSocketPathsAreShort gives each command that connects to a socket a path that the kernel
// refuses.
func TestSocketPathsAreShort(t *testing.T) {
	long := "/" + strings.Repeat("x", socket.MaxPath)
	for _, line := range []string{
		"suspend " + long, "resume " + long,
		"stats " + long, "set " + long + " memory=0", "detach --qmp " + long,
		"attach --device /d --qmp " + long, "attach --qmp /q --device " + long,
	} {
		if err := dispatch(strings.Fields(line)); err == nil ||
			!strings.Contains(err.Error(), "has 108 bytes, and that of a socket 107 at most") {
			t.Errorf("%.20s: %v", line, err)
		}
	}
}

// TestArgumentsAreTaken gives each command an argument that it has no use for.
func TestArgumentsAreTaken(t *testing.T) {
	for line, want := range map[string]string{
		"device --socket-path /nowhere/s --set channels=4 " +
			"memory=8G --gpu nosuch": `device: unexpected argument "memory=8G" ` +
			`(each --set takes one KEY=VALUE)`,
		"attach --qmp /nowhere/s --device /d gpu1": `attach: unexpected argument "gpu1"`,
		"detach --qmp /nowhere/s gpu1=":            `detach: unexpected argument "gpu1="`,
		"probe cuda":                               `probe: unexpected argument "cuda"`,
		"version now":                              `version: unexpected argument "now"`,
		"worker x":                                 `worker: unexpected argument "x"`,
		"mover x":                                  `mover: unexpected argument "x"`,
		"stats /nowhere/s --json /nowhere/t": `stats: unexpected argument "/nowhere/t": ` +
			`want one SOCKET`,
		"detach --socket /s": `detach: unknown flag: --socket: ` +
			`see paracuda detach --help`,
		"device --set memory=8GiB": `device: --set: ` +
			`bad policy memory=8GiB: want a size from 0 bytes on, like 512M or 8G: ` +
			`see paracuda device --help`,
		"help fly":       `unknown command "fly": see paracuda --help`,
		"--version now":  `version: unexpected argument "now"`,
		"stats --json":   `stats: want SOCKET`,
		"suspend":        `suspend: want SOCKET`,
		"resume /s /t":   `resume: unexpected argument "/t": want one SOCKET`,
		"set /nowhere/s": `set: want SOCKET and KEY=VALUE`,
		"run --gpu soft": `run: no program: want paracuda run [options] -- PROGRAM [ARGUMENT]`,
	} {
		if err := dispatch(strings.Fields(line)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
