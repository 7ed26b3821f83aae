// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestNamedGPUs runs the script that tries each way to name GPUs, with the software GPU. A GPU host
// runs the same script with its own GPUs.
func TestNamedGPUs(t *testing.T) {
	boots(t)
	out, err := exec.Command(python(t), "bundle/gpus", "soft", "names").CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "\n0 wrong of 6\n") {
		t.Errorf("tests/bundle/gpus: %v, want \"0 wrong of 6\": %s", err, out)
	}
}

// TestToldOfGPUs runs the script that compares what nvidia-smi and NVML say natively and in guests,
// with a guest for the native side. Then it changes what was said, and has that compared.
func TestToldOfGPUs(t *testing.T) {
	boots(t)
	dir := t.TempDir()
	told := func(args ...string) (string, error) {
		c := exec.Command(python(t), append([]string{"bundle/told"}, args...)...)
		c.Env = append(os.Environ(), "OUT="+dir, "SMI="+filepath.Join(nvmlTools(t), "nvidia-smi"))
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := told("soft"); err != nil || !strings.HasSuffix(out, "\n0 wrong\n") ||
		!strings.Contains(out, "soft:4: NVML: same (1311 facts") ||
		!strings.Contains(out, "soft:4: nvidia-smi topo -m: same (29 facts") {
		t.Fatalf("tests/bundle/told soft: %v: %s", err, out)
	}
	for name, tt := range map[string]struct {
		file  string
		edits []string
		says  string
		wrong bool
	}{
		"a way": {"soft:4.native", []string{"\tNV6", "\tNV18"},
			"\n    GPU 0 to GPU 1: way: natively NV18, in the guest NV6\n", true},
		"no way": {"soft:4.guest", []string{"\tNV6", "\tSYS"},
			"\n    GPU 0 to GPU 1: way: natively NV6, in the guest SYS\n", true},
		"an access": {"soft:4.guest", []string{`"GPU 1 to GPU 0: reads": 0`,
			`"GPU 1 to GPU 0: reads": 5`},
			"\n    GPU 1 to GPU 0: reads: natively 0, in the guest 5\n", true},
		"a GPU of others": {"soft:1.guest", []string{softUUID, softUUID[:len(softUUID)-1] + "2"},
			"WRONG: ", true},
		"a GPU of others beside": {"soft:1.guest", []string{"Legend:",
			softUUID[:len(softUUID)-1] + "2"}, "WRONG: the guest was told of GPU-", true},
		"nothing": {"soft:1.guest", []string{"told-----NVML", "told-----other"},
			"WRONG: NVML's program printed nothing\n", true},
		"no JSON": {"soft:1.native", []string{`"confidential`, "confidential"},
			"output: natively unlike what was expected", true},
		"a temperature": {"soft:1.native", []string{"GPU Current Temp                  : N/A",
			"GPU Current Temp                  : 30 C"},
			"explained: 1: the hardware's state isn't known in a VM\n", false},
		"an invented one": {"soft:1.guest", []string{"GPU Current Temp                  : N/A",
			"GPU Current Temp                  : 30 C"},
			"Temperature/GPU Current Temp: natively N/A, in the guest 30 C\n", true},
		"a host bridge": {"soft:4.native", []string{"\tSYS", "\tPHB"},
			": how near GPUs are on PCI Express isn't known\n", false},
		"a network card": {"soft:1.native", []string{"\tCPU Affinity", "\tNIC0\tCPU Affinity",
			" X \t0-1", " X \tSYS\t0-1"}, ": network cards are the VM's\n", false},
		"memory": {"soft:1.native", []string{": 2147483648", ": 2160000000"},
			": memory is what CUDA can have\n", false},
		"too little memory": {"soft:1.native", []string{": 2147483648", ": 3147483648"},
			"total memory: natively 3147483648, in the guest 2147483648\n", true},
		"a link elsewhere": {"soft:1.native", []string{
			`link 0: state": "error 3"`, `link 0: state": 1`,
			`link 0: remote type": "error 3"`, `link 0: remote type": 0`,
			`link 0: remote PCI": "error 3"`, `link 0: remote PCI": "00000000:02:00.0 0x0 0x0"`},
			"explained: 3: a link to a GPU that the VM doesn't have isn't up\n", false},
		"a link to a switch": {"soft:1.native", []string{
			`link 0: state": "error 3"`, `link 0: state": 1`,
			`link 0: remote type": "error 3"`, `link 0: remote type": 2`,
			`link 0: remote PCI": "error 3"`, `link 0: remote PCI": "ffffffff:ff:ff.0 0x0 0x0"`},
			"link 0: state: natively 1, in the guest error 3\n", true},
	} {
		path := filepath.Join(dir, tt.file)
		said, err := os.ReadFile(path)
		changed := strings.NewReplacer(tt.edits...).Replace(string(said))
		if err != nil || changed == string(said) {
			t.Errorf("%s: nothing to change: %v", name, err)
			continue
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := told("again", dir)
		if (err != nil) != tt.wrong || !strings.Contains(out, tt.says) {
			t.Errorf("%s: %v, want an error: %t, and %q: %s", name, err, tt.wrong, tt.says, out)
		}
		if err := os.WriteFile(path, said, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTwoGPUs runs the programs that need two GPUs.
func TestTwoGPUs(t *testing.T) {
	t.Parallel()
	all := slices.DeleteFunc(readPrograms(t), func(p program) bool {
		return !p.has("two") || p.has("gpu") || p.has("apart")
	})
	inEach(t, func(t *testing.T, vm frontEnd) { runEach(t, vm, all, "--gpu", "soft:2") })
}

// TestMoreGPUs runs the same programs where there are four GPUs, by the script for GPU hosts.
func TestMoreGPUs(t *testing.T) {
	boots(t)
	c := exec.Command(python(t), "bench/peers", "soft:4")
	c.Env = append(os.Environ(), "OUT="+t.TempDir(), "PARACUDA_PROGRAMS="+programs)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "good: ") {
		t.Errorf("tests/bench/peers soft:4: %v: %s", err, out)
	}
}

// TestGPUsApart: where GPUs don't reach each other, programs are told so, copies go on, and a
// kernel that reaches over faults.
func TestGPUsApart(t *testing.T) {
	t.Parallel()
	all := slices.DeleteFunc(readPrograms(t), func(p program) bool {
		return !p.has("apart") && p.id() != "peerfault"
	})
	if len(all) != 2 {
		t.Fatalf("programs.txt has %d of apart and peerfault, want both", len(all))
	}
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		runEach(t, vm, all, "--gpu", "soft:2", "--set", "soft-peers=off")
	})
}

// runEach runs programs in a VM, and checks how each ended.
func runEach(t *testing.T, vm frontEnd, all []program, options ...string) {
	var jobs []job
	for _, p := range all {
		file := filepath.Join(programs, p.file)
		jobs = append(jobs, job{p.id(), vm.limit, append([]string{file}, p.args...)})
	}
	got := vm.batch(t, jobs, options...)
	for _, p := range all {
		t.Run(p.id(), func(t *testing.T) { p.check(t, got, p.id()) })
	}
}

// TestGangsTakeTurns: kernels on two GPUs that wait for one another get their turns together, while
// one VM works on one of the GPUs and two VMs on both.
func TestGangsTakeTurns(t *testing.T) {
	boots(t)
	h := newSharedHost(t)
	first := h.vm("first", nil, "2000", "40")
	h.works(first, "first")
	vm := frontEnds[slices.IndexFunc(frontEnds, func(f frontEnd) bool { return f.name == "uml" })]
	gangs := slices.DeleteFunc(readPrograms(t), func(p program) bool {
		return p.id() != "peergangs" && p.id() != "peerprocesses"
	})
	if len(gangs) != 2 {
		t.Fatalf("programs.txt has %d of peergangs and peerprocesses, want both", len(gangs))
	}
	var all sync.WaitGroup
	for _, name := range []string{"both", "both-too"} {
		all.Go(func() {
			var jobs []job
			for _, p := range gangs {
				jobs = append(jobs, job{p.id(), vm.limit,
					append([]string{filepath.Join(programs, p.file)}, p.args...)})
			}
			got := vm.batch(t, jobs, "--gpu", "soft:2", "--arbiter", h.socket, "--name", name)
			for _, p := range gangs {
				p.check(t, got, p.id())
			}
		})
	}
	began, turns := h.vms()["first"].Figures.Counters["launches"], uint64(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	for !awaits(done, 100*time.Millisecond) {
		turns = max(turns, h.vms()["both"].Turns)
	}
	if n := h.vms()["first"].Figures.Counters["launches"]; n <= began || turns == 0 {
		t.Errorf("the VM on one GPU made %d launches, the gangs had %d turns, want some of both",
			n-began, turns)
	}
}

// TestTopologyOfNCCL runs the command of the guest package's service that writes for NCCL how the
// GPUs are joined, with folders of the test's own.
func TestTopologyOfNCCL(t *testing.T) {
	t.Parallel()
	service, err := os.ReadFile(filepath.Join(root, "guestdriver/packaging/debian/service"))
	if err != nil {
		t.Fatal(err)
	}
	writes := regexp.MustCompile(`(?m)^ExecStart=-/bin/sh -c '(.* topology .*)'$`).
		FindSubmatch(service)
	if writes == nil {
		t.Fatal("the service has no ExecStart that writes a topology")
	}
	script := "mkdir /tmp/topology; " + strings.NewReplacer(
		"/run/nvidia-topologyd", "/tmp/topology",
		"/usr/lib/x86_64-linux-gnu", filepath.Join(root, "build/guest/lib"),
	).Replace(string(writes[1])) + "; cat /tmp/topology/virtualTopology.xml"
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		r := vm.run(t, vm.limit, "--gpu", "soft:3", "--", "sh", "-c", script)
		var got struct {
			GPUs []struct {
				Bus   string `xml:"busid,attr"`
				Links []struct {
					Target string `xml:"target,attr"`
					Count  int    `xml:"count,attr"`
				} `xml:"gpu>nvlink"`
			} `xml:"cpu>pci"`
		}
		if err := xml.Unmarshal([]byte(r.stdout), &got); err != nil || r.exit != 0 ||
			len(got.GPUs) != 3 {
			t.Fatalf("exit code %d, %v, %d GPUs, want 0 and 3 GPUs:%s%s", r.exit, err,
				len(got.GPUs), tail(r.stdout), tail(r.stderr))
		}
		for _, g := range got.GPUs {
			others := map[string]int{}
			for _, l := range g.Links {
				others[l.Target] += l.Count
			}
			for _, other := range got.GPUs {
				if n := others[other.Bus]; n > 0 != (other.Bus != g.Bus) {
					t.Errorf("%d links from %s to %s, want some to others only", n, g.Bus,
						other.Bus)
				}
			}
		}
	})
}

// TestTopologyReadByNCCL runs the program that has NCCL read the topology file, with a fake NCCL,
// in VMs with several GPUs. A GPU host has a real one.
func TestTopologyReadByNCCL(t *testing.T) {
	t.Parallel()
	dir := logDir(t)
	libraries := filepath.Join(root, "build/guest/lib")
	if r := command(t, time.Minute, root, "gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared",
		"-fPIC", "-o", filepath.Join(dir, "libnccl.so.2"), "tests/guests/nccl.c", "-L"+libraries,
		"-lcuda"); r.exit != 0 {
		t.Fatal(r.stderr)
	}
	program := []string{python(t), filepath.Join(root, "tests/frameworks/nccl_topology.py")}
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		for gpus, wants := range map[string]map[string]string{
			"soft:2": {
				"": `"value": [["GPU 0", "0", "90", "6 to GPU 1"], ["GPU 1", "1", "90", ` +
					`"6 to GPU 0"]]`,
				"looks": `NCCL's log doesn't name it`,
				"adds":  `"[0, 0], [[`,
			},
			"soft:4": {
				"": `["GPU 3", "3", "90", "6 to GPU 0", "6 to GPU 1", "6 to GPU 2"]]`,
				"forgets": `"value": [["GPU 0", "0", "90", "6 to GPU 1", "6 to GPU 2", ` +
					`"6 to GPU 3"], ["GPU 1", "1", "90"], ["GPU 2"`,
			},
		} {
			var jobs []job
			for fakes := range wants {
				jobs = append(jobs, job{"fakes" + fakes, vm.limit, append([]string{"env",
					"FAKE_NCCL=" + fakes, "PYTHONDONTWRITEBYTECODE=1",
					"NCCL_LIB=" + filepath.Join(dir, "libnccl.so.2")}, program...)})
			}
			got := vm.batch(t, jobs, "--gpu", gpus)
			for fakes, want := range wants {
				o, ran := got["fakes"+fakes]
				fails := fakes == "looks" || fakes == "adds"
				if !ran || (o.exit != 0) != fails || !strings.Contains(o.stdout, want) {
					t.Errorf("%s, fake %q: ran: %t, exit code %d, want %s:%s%s", gpus, fakes, ran,
						o.exit, want, tail(o.stdout), tail(o.stderr))
				}
			}
		}
	})
}

// TestJoinedGPUs: nvidia-smi prints how a VM's GPUs are joined.
func TestJoinedGPUs(t *testing.T) {
	t.Parallel()
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		smi := filepath.Join(nvmlTools(t), "nvidia-smi")
		for gpus, runs := range map[string]map[string]string{
			"soft:3": {
				"topo -m":     `(?m)^GPU0\s+X\s+NV6\s+NV6\s.*\nGPU1\s+NV6\s+X\s+NV6\s`,
				"topo -p2p n": `(?m)^ GPU0\s+X\s+OK\s+OK\s*\n`,
				"nvlink -s":   `(?m)^GPU 2: (.*\n){12}\t Link 11: 26\.562 GB/s$`,
				"nvlink -p":   `^GPU 0: .*\n\t Link 0: 00000000:0[12]:0[01]\.0\n`,
			},
			"soft:8": {
				"topo -m":     `(?m)^GPU7(\s+NV2){7}\s+X\s`,
				"topo -p2p a": `(?m)^ GPU7(\s+OK){7}\s+X\s*\n`,
				"topo -p2p r": `(?m)^ GPU0\s+X(\s+OK){7}\s*\n`,
			},
			"soft:2 --set soft-peers=off": {
				"topo -m":     `(?m)^GPU0\s+X\s+SYS\s`,
				"topo -p2p r": `(?m)^ GPU0\s+X\s+NS\s*\n`,
				"topo -p2p n": `(?m)^ GPU0\s+X\s+NS\s*\n`,
			},
		} {
			var jobs []job
			id := strings.NewReplacer(" ", "")
			for args := range runs {
				jobs = append(jobs,
					job{id.Replace(args), vm.limit, append([]string{smi}, strings.Fields(args)...)})
			}
			got := vm.batch(t, jobs, strings.Fields("--gpu "+gpus)...)
			for args, want := range runs {
				o, ran := got[id.Replace(args)]
				if !ran || o.exit != 0 || o.stderr != "" ||
					!regexp.MustCompile(want).MatchString(o.stdout) {
					t.Errorf("%s, nvidia-smi %s: ran: %t, exit code %d, want output like %s:%s%s",
						gpus, args, ran, o.exit, want, tail(o.stdout), tail(o.stderr))
				}
			}
		}
	})
}
