// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// Files of a host with an NVIDIA GPU.
var (
	aGPU = files{"/sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
		"/sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n",
		// Its sound device isn't a GPU.
		"/sys/bus/pci/devices/0000:01:00.1/vendor": "0x10de\n",
		"/sys/bus/pci/devices/0000:01:00.1/class":  "0x040300\n"}
	aDriver = files{"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel " +
		"Module  580.95.05  Tue Sep 23\nGCC version:  gcc version 12.2.0\n"}
	anOpenDriver = files{"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel " +
		"Module for x86_64  580.95.05  Release Build\n"}
	aModule  = files{"/lib/modules/6.1.0/modules.dep": "updates/dkms/nvidia-current.ko.xz:\n"}
	noModule = files{"/lib/modules/6.1.0/modules.dep": "a/nvidiafb.ko:\nb/x.ko: c/nvidia.ko\n"}
	aLibrary = files{"/usr/lib64/libcuda.so.1": "->libcuda.so.580.95.05",
		"/usr/lib64/libcuda.so.580.95.05": ""}
	oldLibrary = files{"/usr/lib64/libcuda.so.1": "->libcuda.so.570.10",
		"/usr/lib64/libcuda.so.570.10": ""}
	theNodes = files{"/dev/nvidia0": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": ""}
)

// join are the files of goodKernel and all of these.
func join(some ...files) files {
	all := with(nil)
	for _, s := range some {
		for name, text := range s {
			all[name] = text
		}
	}
	return all
}

func TestDriver(t *testing.T) {
	for _, tt := range []struct {
		name       string
		files      files
		level      Level
		found, fix string
	}{
		{"not loaded", join(aGPU, aModule), Problem, "1 NVIDIA GPUs, and their driver isn't loaded",
			"modprobe nvidia"},
		{"not there", join(aGPU, noModule), Problem, "no driver for this kernel", installDriver},
		{"nothing of a kernel", join(aGPU), Problem, "no driver for this kernel", installDriver},
		{"loaded", join(aGPU, aDriver), OK, "580.95.05", ""},
		{"open", join(aGPU, anOpenDriver), OK, "580.95.05", ""},
		{"in a sandbox", join(files{"/dev/nvidiactl": ""}), OK, "/proc doesn't tell", ""},
	} {
		h := healthy(put(t, tt.files))
		t.Run(tt.name, func(t *testing.T) {
			want(t, h.driver(t.Context()), tt.level, tt.found, tt.fix)
		})
	}
	f := healthy(put(t, join())).driver(t.Context())
	if f.Level != Warning || !strings.Contains(f.Found, "no NVIDIA GPU") {
		t.Errorf("without a GPU: %+v", f)
	}
}

func TestLibrary(t *testing.T) {
	for _, tt := range []struct {
		name       string
		files      files
		level      Level
		found, fix string
	}{
		{"none, and no driver", join(), OK, "no libcuda.so.1", ""},
		{"none", join(aDriver), Problem, "isn't there", "libcuda1"},
		{"another version", join(aDriver, oldLibrary), Problem,
			"of version 570.10, NVIDIA's modules are of 580.95.05", "reboot"},
		{"the same", join(aDriver, aLibrary), OK, "libcuda.so.580.95.05, in /usr/lib64", ""},
	} {
		h := healthy(put(t, tt.files))
		t.Run(tt.name, func(t *testing.T) {
			want(t, h.library(t.Context()), tt.level, tt.found, tt.fix)
		})
	}
}

// TestHMM: only open modules with HMM switched on give a warning.
func TestHMM(t *testing.T) {
	set := func(text string) files {
		return files{"/sys/module/nvidia_uvm/parameters/uvm_disable_hmm": text}
	}
	for _, tt := range []struct {
		name       string
		files      files
		level      Level
		found, fix string
	}{
		{"no module", join(anOpenDriver), OK, "isn't loaded", ""},
		{"off", join(anOpenDriver, set("Y\n")), OK, "it is off", ""},
		{"closed", join(aDriver, set("N\n")), OK, "open modules alone", ""},
		{"on", join(anOpenDriver, set("N\n")), Warning, "isn't switched off",
			"uvm_disable_hmm=1 >/etc/modprobe.d/paracuda.conf"},
	} {
		h := healthy(put(t, tt.files))
		t.Run(tt.name, func(t *testing.T) {
			want(t, h.hmm(t.Context()), tt.level, tt.found, tt.fix)
		})
	}
	refused := func(context.Context) (string, error) {
		return "", errors.New("GPU refused: turn HMM off with uvm_disable_hmm=1")
	}
	want(t, compute(t.Context(), refused), Problem, "GPU refused", "rmmod nvidia_uvm")
}

// TestNodes looks at nodes that aren't there, and at ones that not everybody may open.
func TestNodes(t *testing.T) {
	if all := healthy(put(t, join())).nodes(t.Context()); len(all) != 1 {
		t.Errorf("without a driver: %+v", all)
	} else {
		want(t, all[0], OK, "none needed", "")
	}
	all := healthy(put(t, join(aGPU, aDriver))).nodes(t.Context())
	if len(all) != 3 {
		t.Fatalf("without nodes: %+v", all)
	}
	for _, f := range all {
		want(t, f, Problem, "no /dev/nvidia", loadModules)
	}
	third := files{"/dev/nvidia2": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": ""}
	if all = healthy(put(t, join(aGPU, aDriver, third))).nodes(t.Context()); len(all) != 1 {
		t.Fatalf("in a container with another GPU: %+v", all)
	}
	want(t, all[0], OK, "/dev/nvidia2", "")
	h := healthy(put(t, join(aGPU, aDriver, theNodes)))
	if all = h.nodes(t.Context()); len(all) != 1 {
		t.Fatalf("with all nodes: %+v", all)
	}
	want(t, all[0], OK, "/dev/nvidiactl /dev/nvidia-uvm /dev/nvidia0", "")
	level := Warning // root may open it, and the services' user may not
	for _, mode := range []os.FileMode{0o600, 0} {
		if mode == 0 && os.Getuid() != 0 {
			level = Problem
		}
		if err := os.Chmod(h.path("/dev/nvidiactl"), mode); err != nil {
			t.Fatal(err)
		}
		if all = h.nodes(t.Context()); len(all) != 1 {
			t.Fatalf("mode %o: %+v", mode, all)
		}
		want(t, all[0], level, "/dev/nvidiactl", "chmod 0666 /dev/nvidiactl")
	}
}
