"""A deep convolutional GAN (Radford et al. 2015) in the manner of PyTorch's tutorial."""

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset

nz = 16
nc = 3
beta1 = 0.5
lr = 0.0002

device = torch.device("cuda:0" if (torch.cuda.is_available()) else "cpu")


class Images(Dataset):
    def __init__(self, images):
        self.images = torch.from_numpy(images)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], 0


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        m.weight.data.normal_(1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    def __init__(self, ngf):
        super(Generator, self).__init__()  # noqa: UP008
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            # (ngf * 2) x 4 x 4
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            # (ngf) x 8 x 8
            nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False),
            nn.Tanh(),
            # (nc) x 16 x 16
        )

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self, ndf):
        super(Discriminator, self).__init__()  # noqa: UP008
        self.main = nn.Sequential(
            nn.Conv2d(nc, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            # (ndf) x 8 x 8
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            # (ndf * 2) x 4 x 4
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, input):
        return self.main(input)


def make_data(rng, scale=1):
    """Soft blobs of random colour and place."""
    y, x = (rng.random((2, 64, 1, 1, 1)) * 16).astype("float32")
    grid = rng.random((1,)).astype("float32") * 0 + 1
    rows = grid * [[[[i] for i in range(16)]]]
    columns = grid * [[[[i for i in range(16)]]]]
    blobs = 2.0 ** (-((rows - y) ** 2 + (columns - x) ** 2) / 16) * rng.random((64, nc, 1, 1)) * 2 - 1
    return {"images": blobs.astype("float32")}


def build(scale=1):
    torch.manual_seed(999)
    netG = Generator(8 * scale).to(device)
    netG.apply(weights_init)
    netD = Discriminator(8 * scale).to(device)
    netD.apply(weights_init)
    return nn.ModuleDict({"G": netG, "D": netD})


def train(model, data, steps):
    netG, netD = model["G"], model["D"]
    dataset = Images(data["images"])
    dataloader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=0)
    criterion = nn.BCELoss()
    dtype = next(netD.parameters()).dtype
    fixed_noise = torch.randn(4, nz, 1, 1, device=device, dtype=dtype)
    real_label = 1.0
    fake_label = 0.0
    optimizerD = optim.Adam(netD.parameters(), lr=lr, betas=(beta1, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=lr, betas=(beta1, 0.999))
    history = {"errD": [], "errG": [], "D_x": [], "D_G_z": [], "pixels": []}
    num_epochs = -(-steps // len(dataloader))
    for epoch in range(num_epochs):
        for i, batch in enumerate(dataloader, 0):
            # all real
            netD.zero_grad()
            real_cpu = batch[0].to(device)
            b_size = real_cpu.size(0)
            label = torch.full((b_size,), real_label, dtype=dtype, device=device)
            output = netD(real_cpu).view(-1)
            errD_real = criterion(output, label)
            errD_real.backward()
            D_x = output.mean().item()
            # all fake
            noise = torch.randn(b_size, nz, 1, 1, device=device, dtype=dtype)
            fake = netG(noise)
            label.fill_(fake_label)
            output = netD(fake.detach()).view(-1)
            errD_fake = criterion(output, label)
            errD_fake.backward()
            errD = errD_real + errD_fake
            optimizerD.step()
            # the generator wants its images taken for real
            netG.zero_grad()
            label.fill_(real_label)
            output = netD(fake).view(-1)
            errG = criterion(output, label)
            errG.backward()
            D_G_z2 = output.mean().item()
            optimizerG.step()
            history["errD"].append(errD.item())
            history["errG"].append(errG.item())
            history["D_x"].append(D_x)
            history["D_G_z"].append(D_G_z2)
            if (epoch == num_epochs - 1) and (i == len(dataloader) - 1):
                with torch.no_grad():
                    fake = netG(fixed_noise).detach().cpu()
                history["pixels"] += fake.mean((1, 2, 3)).tolist()
    return history
