// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/gpubackend/socket"
)

// ranBy runs this program's main with a command line.
func ranBy(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr strings.Builder
	c := exec.Command(os.Args[0], args...)
	c.Stdout, c.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// TestUsageErrors: a mistake in the command line gives one line on standard error, and exit code 2.
func TestUsageErrors(t *testing.T) {
	for line, want := range map[string]string{
		"fly":                                  `unknown command "fly": see paracuda --help`,
		"stat":                                 `unknown command "stat", like stats: see`,
		"--fly":                                "unknown flag: --fly: see paracuda --help",
		"device":                               "want --socket-path PATH or --fd N",
		"device --fd x":                        "--fd x: want a number",
		"device -gpu soft":                     ": want --gpu: see paracuda device --help",
		"device --socket-path s --gpu v":       "--gpu v: want auto, soft or cuda",
		"device --socket-path s --set x":       `bad policy "x"`,
		"device --socket-path s --sandbox x":   "want on or off",
		"run --gpu soft --vm bochs -- true":    "--vm bochs: want qemu or uml",
		"run":                                  "no program",
		"attach":                               "attach: want --qmp SOCKET or --domain NAME",
		"attach --qmp q":                       "attach: want --device SOCKET",
		"attach --qmp q --domain d":            "want --qmp SOCKET or --domain NAME",
		"detach --qmp q --connect c":           "--connect is for --domain",
		"attach --qmp q --device d --wait -1s": "--wait -1s: want 0 or more",
		"detach":                               "detach: want --qmp SOCKET or --domain NAME",
		"set":                                  "want SOCKET and KEY=VALUE",
		"set --vm a/b weight=1":                "VM name",
		"set --vm a weight=0":                  "want a number above 0",
		"set /nowhere/s colour=red":            `"colour": unknown key; paracuda device`,
		"set /nowhere/s weight":                "want KEY=VALUE",
		"set /nowhere/s weight=0":              "want a number",
		"set --vm a colour=red":                `"colour": unknown key`,
		"man":                                  "want one DIR",
		"probe --quick --json":                 "want --quick or --json",
		"arbiter --metrics x --socket /nowhere/s":        "--metrics x: want an address",
		"arbiter --warm-workers 9999":                    "want 0 to 1024",
		"device --socket-path s --socket-mode 9":         "want an octal mode",
		"device --socket-path s --cgroup-set pids.max=3": "needs --cgroup DIR",
		"device --name a/b --socket-path s":              "VM name",
		"device --fd 99":                                 "--fd 99: want an open socket",
		"run --kernel 9 -- true":                         "--kernel 9: want one of 6.1, 6.12",
		"run --cpus 999 -- true":                         "--cpus 999: want 1 to ",
		"stats":                                          "want SOCKET",
		"top --every 1ms":                                "want 100ms or more",
		"top --every 3":                                  "--every 3: want a time like 30s",
		"top --once=2":                                   "--once 2: want true or false",
		"arbiter --log-level loud --socket /nowhere/s":   "--log-level loud",
		"arbiter --log-format xml --socket /nowhere/s":   "--log-format xml",
		"completion tcsh":                                "want bash, zsh or fish",
		"version now":                                    "unexpected argument",
		"worker x":                                       "unexpected argument",
		"stats /" + strings.Repeat("x", socket.MaxPath):  "107 at most",
		"device --gpu soft --socket-path s --set turn=1": "want a time like 5ms",
	} {
		code, out, said := ranBy(t, strings.Fields(line)...)
		if code != 2 || out != "" || strings.Count(said, "\n") != 1 ||
			!strings.HasPrefix(said, "paracuda: ") || !strings.Contains(said, want) {
			t.Errorf("%s: exit code %d, %q, %q, want %q", line, code, out, said, want)
		}
	}
	if code, out, said := ranBy(t); code != 2 || out != "" ||
		!strings.Contains(said, "Commands") {
		t.Errorf("nothing: exit code %d, %q, %q", code, out, said)
	}
	if code, _, _ := ranBy(t, "stats", "/nowhere/s"); code != 1 {
		t.Errorf("what can't be done: exit code %d", code)
	}
}

// TestHelp asks each command for its help in both ways: --help, and help COMMAND.
func TestHelp(t *testing.T) {
	code, all, said := ranBy(t, "--help")
	if code != 0 || said != "" {
		t.Fatalf("exit code %d, %q", code, said)
	}
	for _, c := range rootCommand("").Commands() {
		listed := strings.Contains(all, "  "+c.Name()+" ")
		if listed == c.Hidden {
			t.Errorf("%s: listed %t, hidden %t", c.Name(), listed, c.Hidden)
		}
		if c.Hidden {
			continue
		}
		code, help, said := ranBy(t, c.Name(), "--help")
		if code != 0 || said != "" || !strings.HasPrefix(help, "Usage: paracuda "+c.Use+"\n") {
			t.Errorf("%s --help: exit code %d, %q, %q", c.Name(), code, said, help)
		}
		if _, same, _ := ranBy(t, "help", c.Name()); same != help {
			t.Errorf("help %s is other than %[1]s --help: %q", c.Name(), same)
		}
	}
}

// hanging matches a line break inside an entry, with the indent behind it.
var hanging = regexp.MustCompile(`\n {8,}`)

// TestHelpTellsDefaults of options and of settings.
func TestHelpTellsDefaults(t *testing.T) {
	_, help, _ := ranBy(t, "device", "--help")
	help = hanging.ReplaceAllString(help, " ")
	for _, want := range []string{
		"--gpu GPU ", `(default "auto")`, `(default "info")`, "\n  batch-commands=N ",
		"(default: 512)\n", "\n  arena=SIZE", "(default: 8M)\n", "\n  spin-host=TIME",
		"(default: 500us, with fewer than 8 processors 50us)\n", "(default: on)\n",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("no %q in\n%s", want, help)
		}
	}
	if _, help, _ = ranBy(t, "arbiter", "--help"); !strings.Contains(help, "\n  weight=N ") {
		t.Errorf("no keys in\n%s", help)
	}
}

// completions returns what a shell is offered after a command line.
func completions(t *testing.T, args ...string) string {
	t.Helper()
	code, out, _ := ranBy(t, append([]string{cobra.ShellCompRequestCmd}, args...)...)
	if code != 0 {
		t.Fatalf("%q: exit code %d", args, code)
	}
	return out
}

func TestCompletion(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{""}, "device\tserve the GPU"},
		{[]string{"device", "--sock"}, "--socket-path\tlisten"},
		{[]string{"device", "--gpu", ""}, "auto\ncuda\nsoft\n"},
		{[]string{"run", "--vm", ""}, "qemu\numl\n"},
		{[]string{"run", "--set", "graph"}, "graph-replay=\t"},
		{[]string{"device", "--set", "graph-replay="}, "graph-replay=on\ngraph-replay=off\n"},
		{[]string{"set", "/run/s", "cl"}, "class=\t"},
		{[]string{"set", "--vm", "a", "cl"}, "class=\t"},
		{[]string{"attach", "--carrier", "f"}, "fs\n"},
		{[]string{"run", "--kernel", ""}, "6.1\n6.12\n"},
		{[]string{"run", "--vm", "uml", "--kernel", ""}, "7.2\n"},
		{[]string{"device", "--socket-group", ""}, "root\n"},
		{[]string{"device", "--cgroup-set", "pids"}, "pids.max=\n"},
		{[]string{"device", "--set", "soft-lost="}, "soft-lost=off\n:"},
		{[]string{"device", "--log-format", ""}, "auto\ntext\njournal\njson\n"},
		{[]string{"device", "--sandbox", ""}, "on\noff\n"},
		{[]string{"attach", "--connect", "qemu:///se"}, "qemu:///session\n"},
		{[]string{"help", "st"}, "stats\t"},
		{[]string{"completion", ""}, "bash\nzsh\nfish\n"},
	} {
		if got := completions(t, tt.args...); !strings.Contains(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.args, got, tt.want)
		}
	}
	if got := completions(t, ""); strings.Contains(got, "worker") {
		t.Errorf("what paracuda starts itself is offered: %q", got)
	}
}

// TestCompletionScripts has bash check its script. The other shells need not be installed.
func TestCompletionScripts(t *testing.T) {
	for shell, want := range map[string]string{
		"bash": "__start_paracuda", "zsh": "#compdef paracuda", "fish": "complete -c paracuda",
	} {
		code, script, said := ranBy(t, "completion", shell)
		if code != 0 || said != "" || !strings.Contains(script, want) {
			t.Errorf("%s: exit code %d, %q", shell, code, said)
		}
		if shell != "bash" {
			continue
		}
		c := exec.Command("bash", "-n")
		c.Stdin = strings.NewReader(script)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("bash: %v, %s", err, out)
		}
	}
}
