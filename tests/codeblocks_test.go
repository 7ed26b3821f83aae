// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// codeBlocks lists the code blocks of the documents for users, each by the beginning of its first
// line. by is the test's file that takes the block from the document and executes it. If there is
// none, why says why.
var codeBlocks = []struct{ file, first, by, why string }{
	{"README.md", "make demo", "tests/walk/systems", ""},
	{"README.md", "bin/paracuda run --report", "tests/run_test.go", ""},
	{"README.md", "make build install guest-package", "", "TestInstall installs, and " +
		"TestReadmeIsRecoverable compares QEMU's options with those that the tests have"},
	{"README.md", "apt-get install linux-headers", "", "the walk's block of docs/guest.md does it"},
	{"README.md", "paracuda attach", "tests/attach_test.go", ""},
	{"docs/containers.md", "podman run --rm --device", "tests/containers_test.go", ""},
	{"docs/containers.md", "mkdir image", "tests/containers_test.go", ""},
	{"docs/containers.md", "paracuda-cdi /etc/cdi", "tests/containers_test.go", ""},
	{"docs/containers.md", "{\"features\"", "tests/walk/operator-debian", ""},
	{"docs/containers.md", "tar -C image -c . | docker", "tests/walk/operator-debian", ""},
	{"docs/containers.md", "lib=/usr/lib", "tests/containers_test.go", ""},
	{"docs/libvirt.md", "<domain type='kvm'", "tests/walk/operator-domain", ""},
	{"docs/libvirt.md", "paracuda detach --domain", "tests/walk/operator-host", ""},
	{"docs/libvirt.md", "virsh qemu-monitor-command", "tests/walk/operator-host", ""},
	{"docs/guest.md", "paracuda-doctor ", "tests/guestdoctor_test.go", ""},
	{"docs/guest.md", "apt-get install linux-headers-KERNEL", "tests/walk/operator", ""},
	{"docs/guest.md", "apt-get install ./paracuda-guest", "", "the block for cloud-init " +
		"installs both, and tests/walk/kernels, too"},
	{"docs/guest.md", "#cloud-config", "tests/walk/operator-debian", ""},
	{"docs/guest.md", "genisoimage ", "tests/walk/operator-debian", ""},
	{"docs/guest.md", "LD_PRELOAD=libparacuda-cupti.so", "", "needs PyTorch: tests/frameworks " +
		"runs it on a GPU host"},
	{"docs/host.md", "make host-package", "tests/walk/operator-host", ""},
	{"docs/host.md", "gpu = \"auto\"", "tests/walk/operator-host", ""},
	{"docs/host.md", "systemctl enable --now", "tests/walk/operator-host", ""},
	{"docs/host.md", "systemctl status paracuda@training", "tests/walk/operator-host", ""},
	{"docs/host.md", "echo PARACUDA_ARBITER_OPTIONS", "tests/walk/operator-host", ""},
	{"docs/host.md", "scrape_configs:", "tests/walk/operator-host", ""},
	{"docs/host.md", "paracuda doctor ", "tests/walk/operator-host", ""},
	{"docs/no-gpu.md", "tar -xf paracuda-soft", "tests/soft_test.go", ""},
	{"docs/no-gpu.md", "mkdir -p out", "tests/soft_test.go", ""},
	{"docs/no-gpu.md", "mkdir -p /usr/local", "tests/soft_test.go", ""},
	{"docs/no-gpu.md", "podman run --rm --network none", "tests/soft_test.go", ""},
	{"docs/no-gpu.md", "nvcc -cudart static", "tests/soft_test.go", ""},
	{"docs/no-gpu.md", "check:", "tests/soft_test.go", ""},
	{"docs/no-gpu.md", "paracuda-soft-*/run make", "tests/soft_test.go", ""},
	{"docs/operation.md", "paracuda device --socket-path", "", "needs a host with GPUs, where " +
		"tests/bundle/gpus names them in each way"},
	{"docs/operation.md", "[Service]", "tests/attach_test.go", ""},
	{"docs/performance.md", "./bench copy", "", "measures, on a GPU host"},
	{"docs/programs.md", "make gpu-bundle  ", "", "needs a GPU host"},
	{"docs/programs.md", "make gpu-bundle        #", "", "needs a GPU host"},
	{"docs/reference.md", "apt-get install ./build/paracuda-host", "", "TestVMPackage unpacks " +
		"the package that this installs, and runs a program by it"},
	{"docs/reference.md", "paracuda completion bash", "tests/walk/operator-host", ""},
	{"docs/sharing.md", "paracuda arbiter --config", "tests/sharingdocs_test.go", ""},
	{"docs/sharing.md", "paracuda device --socket-path", "tests/sharingdocs_test.go", ""},
	{"docs/sharing.md", "[default]", "tests/sharingdocs_test.go", ""},
	{"docs/sharing.md", "paracuda set --vm training memory-mode", "tests/sharingdocs_test.go", ""},
	{"docs/sharing.md", "paracuda set --vm training weight", "tests/sharingdocs_test.go", ""},
	{"docs/sharing.md", "paracuda top", "tests/sharingdocs_test.go", ""},
	{"docs/suspend.md", "paracuda suspend /run", "tests/walk/operator-host", ""},
	{"docs/suspend.md", "paracuda suspend --to", "tests/suspend_test.go", ""},
	{"docs/suspend.md", "paracuda resume --from", "tests/suspend_test.go", ""},
	{"docs/suspend.md", "paracuda resume /run", "tests/suspendagain_test.go", ""},
	{"docs/suspend.md", "paracuda detach", "tests/away_test.go", ""},
	{"docs/suspend.md", "paracuda attach", "tests/away_test.go", ""},
	{"docs/suspend.md", "paracuda device --from", "tests/twohosts_test.go", ""},
	{"docs/suspend.md", "paracuda device --socket-path /run/there", "tests/twohosts_test.go", ""},
	{"docs/suspend.md", "paracuda precopy", "tests/precopy_test.go", ""},
	{"docs/suspend.md", "movable: no", "", "is what a command prints"},
	{"docs/upgrade.md", "apt-get install ./paracuda-host", "tests/walk/operator-host", ""},
	{"docs/upgrade.md", "apt-get install ./paracuda-guest", "tests/walk/operator-debian", ""},
}

// notForUsers are documents whose code blocks are drawings and formats.
var notForUsers = []string{"docs/architecture.md", "docs/protocol.md", "docs/threat-model.md",
	"docs/wire.md", "docs/commands.md", "docs/coverage.md", "docs/attributes.md",
	"docs/system-calls.md", "docs/glossary.md"}

// blocksOf are the code blocks of a document, fenced or indented.
func blocksOf(text string) (all []string) {
	var block []string
	fence, indent := false, ""
	end := func() {
		if block != nil {
			all = append(all, strings.TrimRight(strings.Join(block, "\n"), "\n")+"\n")
		}
		block = nil
	}
	before, margin := "", "    "
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		mark := strings.HasPrefix(strings.TrimLeft(line, " "), "```")
		switch {
		case strings.HasPrefix(line, "- "): // an item's blocks are indented by two columns more
			margin = "      "
		case line != "" && line[0] != ' ':
			margin = "    "
		}
		inside, indented := strings.CutPrefix(line, margin)
		begins := before == "" || strings.HasPrefix(before, "#")
		switch {
		case mark && fence:
			fence = false
			end()
		case mark:
			end()
			fence, indent = true, line[:strings.Index(line, "`")]
		case fence:
			block = append(block, strings.TrimPrefix(line, indent))
		case indented && (block != nil || begins && !strings.HasPrefix(inside, " ")):
			block = append(block, inside)
		case line == "" && block != nil:
			block = append(block, "")
		default:
			end()
		}
		before = line
	}
	end()
	return all
}

// codeBlock is the code block of a document that begins with first.
func codeBlock(t *testing.T, file, first string) string {
	t.Helper()
	for _, block := range blocksOf(string(read(t, file))) {
		if strings.HasPrefix(block, first) {
			return block
		}
	}
	t.Fatalf("%s has no code block that begins with %q", file, first)
	return ""
}

// TestCodeBlocks: each code block of the documents is in codeBlocks, and the test that is named
// there takes it from the document.
func TestCodeBlocks(t *testing.T) {
	known := map[string]bool{}
	for _, b := range codeBlocks {
		if (b.by == "") == (b.why == "") {
			t.Errorf("%s, %q: want either who executes it, or why nobody does", b.file, b.first)
		}
		key := b.file + "\n" + strings.SplitN(codeBlock(t, b.file, b.first), "\n", 2)[0]
		if known[key] {
			t.Errorf("%s, %q: listed twice", b.file, b.first)
		}
		known[key] = true
		if b.by == "" {
			continue
		}
		text := string(read(t, b.by))
		if !strings.Contains(text, path.Base(b.file)) ||
			!strings.Contains(strings.ReplaceAll(text, `\"`, `"`), b.first) {
			t.Errorf("%s doesn't take %q from %s", b.by, b.first, b.file)
		}
	}
	for _, file := range sources(t, "docs/*.md", "README.md") {
		if strings.HasPrefix(file, "docs/history/") ||
			strings.HasPrefix(file, "docs/measurements/") || slices.Contains(notForUsers, file) {
			continue
		}
		for _, block := range blocksOf(string(read(t, file))) {
			first, _, _ := strings.Cut(block, "\n")
			if !known[file+"\n"+first] {
				t.Errorf("%s: codeBlocks lacks the block that begins with %q", file, first)
			}
		}
	}
}

// TestBlocksAreFound: fenced and indented blocks are found, and no other text.
func TestBlocksAreFound(t *testing.T) {
	text := "# Title\n    first\n\n    more\n\nText\n    goes on.\n\n- item\n\n" +
		"  ```sh\n  a\n    b\n  ```\n\n  of it\n\n      within\n        it\n\n```\nlast\n```\n"
	want := []string{"first\n\nmore\n", "a\n  b\n", "within\n  it\n", "last\n"}
	got := blocksOf(text)
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("found %q, want %q", got, want)
	}
}
