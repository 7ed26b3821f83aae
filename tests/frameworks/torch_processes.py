# SPDX-License-Identifier: Apache-2.0
"""Worker processes: a pinned DataLoader, and several processes that use the GPU at once."""

from sections import imported, run, section

import torch

imported("import torch")


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        return torch.full((64,), float(i)), i * i


@section("DataLoader: 2 workers, pinned")
def loader():
    total, pinned = 0.0, True
    for x, y in torch.utils.data.DataLoader(Squares(), batch_size=32, num_workers=2,
                                            pin_memory=True):
        pinned = pinned and x.is_pinned()
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        total += (x.mean(1) - y.sqrt()).abs().sum().item()
    return [round(total, 3), pinned]


def work(i, queue):
    torch.manual_seed(i)
    x = torch.randn(512, 512).cuda()
    queue.put((i, (x @ x).sum().item()))


@section("four processes at once", tolerance=1e-3)
def processes():
    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    running = [context.Process(target=work, args=(i, queue)) for i in range(4)]
    for p in running:
        p.start()
    results = sorted(queue.get() for _ in running)
    for p in running:
        p.join()
    return [r for _, r in results] + [p.exitcode for p in running]


@section("fork after use: the child is told")
def fork():
    import os

    torch.ones(1, device="cuda")
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            torch.ones(1, device="cuda")
            os.write(write, b"no error")
        except RuntimeError as e:
            os.write(write, str(e).split(".")[0].encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return os.read(read, 200).decode()


if __name__ == "__main__":
    run(torch.cuda.synchronize)
