// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// host is one of two hosts, as a QEMU sees them: a network namespace with a line to the other host,
// and the other host's name.
type host struct {
	name string
	pid  int // of a process in its network namespace
}

// twoHosts makes two hosts, whose names are here and there.
func twoHosts(t *testing.T) (here, there *host) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		skip(t, "no iproute2 here: run scripts/apt-deps")
	}
	own := func(name string) *host {
		p := inBackground(t, "unshare", "--net", "sleep", "1000000")
		h := &host{name, p.cmd.Process.Pid}
		until(t, time.Minute, "there is a network of "+name, func() bool {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", h.pid))
			return string(comm) == "sleep\n"
		})
		return h
	}
	here, there = own("here"), own("there")
	lines := fmt.Sprintf("ip link add line netns %d type veth peer name line netns %d\n", here.pid,
		there.pid)
	for i, h := range []*host{here, there} {
		lines += fmt.Sprintf("nsenter -t %d -n sh -ec 'ip link set lo up; ip link set line up\n"+
			"ip addr add 192.0.2.%d/24 dev line'\n", h.pid, 1+i)
	}
	if r := command(t, time.Minute, root, "sh", "-ec", lines); r.exit != 0 {
		skip(t, "no networks can be made here: %s", strings.TrimSpace(r.stderr))
	}
	return here, there
}

// has makes a program that runs another one on this host.
func (h *host) has(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	names, file := filepath.Join(dir, "hosts"), filepath.Join(dir, "program")
	for name, text := range map[string]string{
		names: "127.0.0.1 localhost\n192.0.2.1 here\n192.0.2.2 there\n",
		file: fmt.Sprintf("#!/bin/sh\nexec nsenter -t %d -n unshare --mount sh -ec '\n"+
			"mount --bind %s /etc/hosts\nexec \"$0\" \"$@\"' %s \"$@\"\n", h.pid, names, program),
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// TestTwoHosts migrates a VM between two hosts as docs/suspend.md says: there while its programs
// compute, and back while the VM is suspended to a file.
func TestTwoHosts(t *testing.T) {
	needsQEMU(t)
	const page = "docs/suspend.md"
	live := codeBlock(t, page, "paracuda device --socket-path /run/there")
	inFile := codeBlock(t, page, "paracuda device --from")
	word := func(text, pattern string) string {
		t.Helper()
		found := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("%s doesn't have %s", page, pattern)
		}
		return found[1]
	}
	incoming, to := word(live, `-incoming (\S+)`), word(live, `migrate (\S+)`)

	here, there := twoHosts(t)
	program := qemuProgram(t, migrators[len(migrators)-1])
	m := &moving{t: t, image: keepingRoot(t), dir: t.TempDir()}
	m.program = here.has(t, program)
	m.start()
	m.g.expect("guest: device", 1)
	m.g.tell("keep")
	m.compute()

	m.program = there.has(t, program)
	m.options = strings.Fields(word(live, `paracuda device --socket-path \S+([^#]*)#`))
	m.liveBy(func() (string, string) { return incoming, to })
	m.compute()

	file, copied := m.toFile("training.state"), filepath.Join(m.dir, "copied")
	if r := command(t, time.Minute, root, "cp", file, copied); r.exit != 0 {
		t.Fatal(r.stderr)
	}
	m.program = here.has(t, program)
	m.options = strings.Fields(strings.Replace(word(inFile, `paracuda device (.*) --socket-path`),
		filepath.Base(file), copied, 1))
	g, device := m.g, m.device
	m.start("-incoming", incoming)
	m.g.answers()
	if !m.send(g, device, strings.Replace(to, there.name, here.name, 1)) {
		t.Fatal("a VM that is suspended to a file couldn't be migrated")
	}
	m.leave(g, device)
	m.g.runs()
	m.compute()
	m.device.expect(t, "the VM was resuming")
}
