"""Makes tests/golden/tensorboard/run.tfevents with TensorBoard's own record writer and protocol buffers.

    pip install tensorboard && python tests/tools/make_tensorboard_golden.py
"""

import pathlib

from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

target = pathlib.Path(__file__).parents[1] / "golden" / "tensorboard" / "run.tfevents"
scalars = {"größe": 1e-3, "train/loss": 3.5, "train/nan": float("nan"), "train/zero": 0.0}
text = summary_pb2.Summary.Value(
    tag="samples",
    metadata=summary_pb2.SummaryMetadata(
        plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="text"),
        data_class=summary_pb2.DATA_CLASS_TENSOR,
    ),
    tensor=tensor_pb2.TensorProto(
        dtype=types_pb2.DT_STRING,
        tensor_shape=tensor_shape_pb2.TensorShapeProto(),
        string_val=["| a | b |\n|---|---|\n| ü | 2 |\n".encode()],
    ),
)
values = [summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
values.sort(key=lambda value: value.tag.encode())
events = [
    event_pb2.Event(wall_time=1_700_000_000.25, file_version="brain.Event:2"),
    event_pb2.Event(
        wall_time=1_700_000_000.5,
        step=42,
        session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START),
    ),
    event_pb2.Event(wall_time=1_700_000_001.0, step=42, summary=summary_pb2.Summary(value=values)),
    event_pb2.Event(wall_time=1_700_000_002.0, step=1 << 40, summary=summary_pb2.Summary(value=[text])),
]
with open(target, "wb") as file:
    writer = RecordWriter(file)
    for event in events:
        writer.write(event.SerializeToString())
