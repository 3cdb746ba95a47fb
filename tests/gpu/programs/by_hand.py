"""A model as somebody captures it by hand who knows CUDA Graphs: what the library is compared with."""

import torch


@torch.no_grad()
def captured(model, x):
    """A function that replays model(x) and returns its output, which the next call overwrites."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(x)

    def replay(_):
        graph.replay()
        return out

    return replay
