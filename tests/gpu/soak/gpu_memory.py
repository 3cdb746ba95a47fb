"""GPU memory of single processes, from nvidia-smi: other programs may use the same GPU meanwhile."""

import shutil
import subprocess
import threading

QUERY = ["--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits", "--loop-ms=1000"]


class GpuMemory:
    """What nvidia-smi said last, once a second; nothing where it is missing or does not see processes."""

    def __init__(self):
        self.mib = {}
        self.process = None
        program = shutil.which("nvidia-smi")
        if not program:
            return
        self.process = subprocess.Popen([program, *QUERY], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, errors="replace")
        self.reader = threading.Thread(target=self.listen)
        self.reader.start()

    def listen(self):
        for line in self.process.stdout:
            pid, _, mib = line.partition(",")
            if pid.strip().isdigit() and mib.strip().isdigit():
                self.mib[int(pid)] = float(mib)

    def of(self, pid):
        """MiB on all GPUs, or None: not known."""
        return self.mib.get(pid)

    def end(self):
        if self.process:
            self.process.kill()
            self.reader.join()
            self.process.stdout.close()
            self.process.wait()
